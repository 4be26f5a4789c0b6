"""Coreference: CoNLL-2012, LitBank and OntoGUM documents; MUC, B³, CEAF and their mean."""
