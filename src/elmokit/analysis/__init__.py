"""What the vectors know, and how words are used: analyses that return a `Report`."""

from typing import TYPE_CHECKING

from elmokit.lazy import lazy_names

if TYPE_CHECKING:
    from elmokit.analysis.neighbors.build import open_index
    from elmokit.analysis.neighbors.contexts import NeighborOptions, find_neighbors, neighbors_report
    from elmokit.analysis.occurrence import Occurrence
    from elmokit.analysis.page import write_report
    from elmokit.analysis.probes.analyze import analyze_pos
    from elmokit.analysis.report import Report, show
    from elmokit.analysis.usage.occurrences import Corpus
    from elmokit.analysis.usage.questions import UsageOptions, describe_ranking, describe_usage
    from elmokit.analysis.wsd.analyze import analyze_wsd

__all__ = [
    "Corpus",
    "NeighborOptions",
    "Occurrence",
    "Report",
    "UsageOptions",
    "analyze_pos",
    "analyze_wsd",
    "describe_ranking",
    "describe_usage",
    "find_neighbors",
    "neighbors_report",
    "open_index",
    "show",
    "write_report",
]

_HOMES = {
    "Corpus": "elmokit.analysis.usage.occurrences",
    "NeighborOptions": "elmokit.analysis.neighbors.contexts",
    "Occurrence": "elmokit.analysis.occurrence",
    "Report": "elmokit.analysis.report",
    "UsageOptions": "elmokit.analysis.usage.questions",
    "analyze_pos": "elmokit.analysis.probes.analyze",
    "analyze_wsd": "elmokit.analysis.wsd.analyze",
    "describe_ranking": "elmokit.analysis.usage.questions",
    "describe_usage": "elmokit.analysis.usage.questions",
    "find_neighbors": "elmokit.analysis.neighbors.contexts",
    "neighbors_report": "elmokit.analysis.neighbors.contexts",
    "open_index": "elmokit.analysis.neighbors.build",
    "show": "elmokit.analysis.report",
    "write_report": "elmokit.analysis.page",
}
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
