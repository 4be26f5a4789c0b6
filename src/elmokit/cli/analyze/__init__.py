"""`elmokit analyze`: the paper's analyses, and what else can be asked of a model's vectors."""

from elmokit.cli.analyze.layer_weights import layer_weights
from elmokit.cli.analyze.learning_curves import learning_curves
from elmokit.cli.analyze.neighbors import neighbors
from elmokit.cli.analyze.probes import ner, pos
from elmokit.cli.analyze.sample_efficiency import sample_efficiency
from elmokit.cli.analyze.senses import senses
from elmokit.cli.analyze.task_variants import mixing, placement
from elmokit.cli.analyze.wsd import wsd
from elmokit.cli.commands import Commands

analyze = Commands("analyze", "What the layers know, and how words are used.")
analyze.command()(mixing)
analyze.command()(placement)
analyze.command()(sample_efficiency)
analyze.command("neighbors")(neighbors)
analyze.command("neighbours", hidden=True)(neighbors)
analyze.command()(wsd)
analyze.command()(pos)
analyze.command()(ner)
analyze.command()(layer_weights)
analyze.command()(learning_curves)
analyze.command()(senses)
