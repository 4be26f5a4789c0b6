"""How well a biLM predicts text: perplexity, surprisal per token, and substitutes for words."""

from typing import TYPE_CHECKING

from elmokit.lazy import lazy_names

if TYPE_CHECKING:
    from elmokit.scoring.perplexity import Perplexity, measure_perplexity
    from elmokit.scoring.sentences import SentenceScore, score_sentences
    from elmokit.scoring.substitutes import Substitute, find_substitutes
    from elmokit.scoring.surprisal import PairSurprisal, TextSurprisal, compare_pairs, measure_surprisal

__all__ = [
    "PairSurprisal",
    "Perplexity",
    "SentenceScore",
    "Substitute",
    "TextSurprisal",
    "compare_pairs",
    "find_substitutes",
    "measure_perplexity",
    "measure_surprisal",
    "score_sentences",
]

_HOMES = {
    "PairSurprisal": "elmokit.scoring.surprisal",
    "Perplexity": "elmokit.scoring.perplexity",
    "SentenceScore": "elmokit.scoring.sentences",
    "Substitute": "elmokit.scoring.substitutes",
    "TextSurprisal": "elmokit.scoring.surprisal",
    "compare_pairs": "elmokit.scoring.surprisal",
    "find_substitutes": "elmokit.scoring.substitutes",
    "measure_perplexity": "elmokit.scoring.perplexity",
    "measure_surprisal": "elmokit.scoring.surprisal",
    "score_sentences": "elmokit.scoring.sentences",
}
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
