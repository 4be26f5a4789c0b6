"""What the vectors know, and how words are used: analyses that return a `Report`."""

from typing import TYPE_CHECKING

from elmokit.lazy import lazy_names

if TYPE_CHECKING:
    from elmokit.analysis.neighbors.build import open_index
    from elmokit.analysis.neighbors.contexts import NeighborOptions, analyze_neighbors, find_neighbors
    from elmokit.analysis.neighbors.types import analyze_type_neighbors
    from elmokit.analysis.occurrence import Occurrence
    from elmokit.analysis.page import write_report
    from elmokit.analysis.probes.analyze import analyze_ner, analyze_pos
    from elmokit.analysis.report import Report, show
    from elmokit.analysis.tasks.layer_weights import analyze_layer_weights
    from elmokit.analysis.tasks.learning_curves import analyze_learning_curves
    from elmokit.analysis.tasks.sample_efficiency import analyze_sample_efficiency
    from elmokit.analysis.tasks.variants import analyze_mixing, analyze_placement
    from elmokit.analysis.usage.analyze import UsageOptions, analyze_senses, analyze_shifts
    from elmokit.analysis.usage.occurrences import Corpus
    from elmokit.analysis.usage.ranking import RankOptions
    from elmokit.analysis.wsd.analyze import analyze_wsd
    from elmokit.tasks.experiments.variants import Experiment
    from elmokit.tasks.registry import find_task

__all__ = [
    "Corpus",
    "Experiment",
    "NeighborOptions",
    "Occurrence",
    "RankOptions",
    "Report",
    "UsageOptions",
    "analyze_layer_weights",
    "analyze_learning_curves",
    "analyze_mixing",
    "analyze_neighbors",
    "analyze_ner",
    "analyze_placement",
    "analyze_pos",
    "analyze_sample_efficiency",
    "analyze_senses",
    "analyze_shifts",
    "analyze_type_neighbors",
    "analyze_wsd",
    "find_neighbors",
    "find_task",
    "open_index",
    "show",
    "write_report",
]

_HOMES = {
    "Corpus": "elmokit.analysis.usage.occurrences",
    "Experiment": "elmokit.tasks.experiments.variants",
    "NeighborOptions": "elmokit.analysis.neighbors.contexts",
    "Occurrence": "elmokit.analysis.occurrence",
    "RankOptions": "elmokit.analysis.usage.ranking",
    "Report": "elmokit.analysis.report",
    "UsageOptions": "elmokit.analysis.usage.analyze",
    "analyze_layer_weights": "elmokit.analysis.tasks.layer_weights",
    "analyze_learning_curves": "elmokit.analysis.tasks.learning_curves",
    "analyze_mixing": "elmokit.analysis.tasks.variants",
    "analyze_neighbors": "elmokit.analysis.neighbors.contexts",
    "analyze_ner": "elmokit.analysis.probes.analyze",
    "analyze_placement": "elmokit.analysis.tasks.variants",
    "analyze_pos": "elmokit.analysis.probes.analyze",
    "analyze_sample_efficiency": "elmokit.analysis.tasks.sample_efficiency",
    "analyze_senses": "elmokit.analysis.usage.analyze",
    "analyze_shifts": "elmokit.analysis.usage.analyze",
    "analyze_type_neighbors": "elmokit.analysis.neighbors.types",
    "analyze_wsd": "elmokit.analysis.wsd.analyze",
    "find_neighbors": "elmokit.analysis.neighbors.contexts",
    "find_task": "elmokit.tasks.registry",
    "open_index": "elmokit.analysis.neighbors.build",
    "show": "elmokit.analysis.report",
    "write_report": "elmokit.analysis.page",
}
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
