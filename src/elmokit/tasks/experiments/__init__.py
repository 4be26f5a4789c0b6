"""Several runs of a task: variants over seeds, in parallel processes, compared with a test of significance."""
