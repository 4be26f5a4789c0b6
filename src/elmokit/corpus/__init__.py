"""Training text: checking, counting, sharding and reading it, without torch."""

from typing import TYPE_CHECKING

from elmokit.lazy import lazy_names

if TYPE_CHECKING:
    from elmokit.corpus.check import CorpusReport, check_corpus
    from elmokit.corpus.counting import build_vocabulary, count_words
    from elmokit.corpus.shards import ShardSummary, write_shards
    from elmokit.corpus.stream import SentenceStream

__all__ = [
    "CorpusReport",
    "SentenceStream",
    "ShardSummary",
    "build_vocabulary",
    "check_corpus",
    "count_words",
    "write_shards",
]

_HOMES = {
    "CorpusReport": "elmokit.corpus.check",
    "SentenceStream": "elmokit.corpus.stream",
    "ShardSummary": "elmokit.corpus.shards",
    "build_vocabulary": "elmokit.corpus.counting",
    "check_corpus": "elmokit.corpus.check",
    "count_words": "elmokit.corpus.counting",
    "write_shards": "elmokit.corpus.shards",
}
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
