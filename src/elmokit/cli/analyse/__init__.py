"""`elmokit analyze`: the paper's analyses, and what else can be asked of a model's vectors."""

from elmokit.cli.analyse.layer_weights import layer_weights
from elmokit.cli.analyse.learning_curves import learning_curves
from elmokit.cli.analyse.neighbours import neighbours
from elmokit.cli.analyse.pos import pos
from elmokit.cli.analyse.sample_efficiency import sample_efficiency
from elmokit.cli.analyse.senses import senses
from elmokit.cli.analyse.task_variants import mixing, placement
from elmokit.cli.analyse.wsd import wsd
from elmokit.cli.commands import Commands

analyze = Commands("analyze", "What the layers know, and how words are used.")
analyze.command()(mixing)
analyze.command()(placement)
analyze.command()(sample_efficiency)
analyze.command("neighbors")(neighbours)
analyze.command("neighbours", hidden=True)(neighbours)
analyze.command()(wsd)
analyze.command()(pos)
analyze.command()(layer_weights)
analyze.command()(learning_curves)
analyze.command()(senses)
