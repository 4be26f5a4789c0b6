"""`elmokit analyse`: the paper's analyses, and what else can be asked of a model's vectors."""

import typer

from elmokit.cli.analyse.layer_weights import layer_weights
from elmokit.cli.analyse.learning_curves import learning_curves
from elmokit.cli.analyse.neighbours import neighbours
from elmokit.cli.analyse.pos import pos
from elmokit.cli.analyse.sample_efficiency import sample_efficiency
from elmokit.cli.analyse.senses import senses
from elmokit.cli.analyse.task_variants import mixing, placement
from elmokit.cli.analyse.wsd import wsd

analyse = typer.Typer(name="analyse", help="What the layers know, and how words are used.", no_args_is_help=True)
analyse.command()(mixing)
analyse.command()(placement)
analyse.command()(sample_efficiency)
analyse.command()(neighbours)
analyse.command()(wsd)
analyse.command()(pos)
analyse.command()(layer_weights)
analyse.command()(learning_curves)
analyse.command()(senses)
