"""The arguments and options that several commands share, and how their values are read."""

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import typer

from elmokit.errors import ElmokitWarning
from elmokit.text.input_kind import DEFAULT_INPUT, InputKind, is_shard, warn_of_files

if TYPE_CHECKING:
    from elmokit.embedding.pooling import Layers

DEFAULT_MODEL = "mini"
"""The packaged model."""
OUTPUT_NAMES = ("--output", "-o")
SENTENCE = typer.Argument(
    metavar="SENTENCE", help="The sentence: raw text, or space-separated tokens with --input tokens."
)
_INPUT_HELP = "Lines are raw text or space-separated tokens; shards are always tokens."
Place = TypeVar("Place")

# --- Models and text -------------------------------------------------------------------------------------------------

Model = Annotated[
    str,
    typer.Option("--model", help="A path, mini (in the package), a published name (original …), a Hub id."),
]
Source = Annotated[str, typer.Argument(metavar="INPUT", help="One text per line; .gz .xz .bz2 work; - is stdin.")]
Input = Annotated[InputKind | None, typer.Option("--input", help=_INPUT_HELP, show_default=DEFAULT_INPUT)]
TrainingInput = Annotated[InputKind | None, typer.Option("--input", help=_INPUT_HELP, show_default="as in CONFIG")]
Errors = Annotated[Literal["strict", "replace"], typer.Option(help="Invalid UTF-8: fail, or replace with U+FFFD.")]
Threads = Annotated[int | None, typer.Option("--threads", min=1, help="Cores to use; by default all.")]
PrecisionName = Literal["float32", "bfloat16", "int8", "auto"]
_PRECISION_HELP = "Precision of matrix products: bfloat16 and int8 are faster, with slightly different vectors."
Precision = Annotated[PrecisionName, typer.Option("--precision", help=_PRECISION_HELP)]
IndexPrecision = Annotated[
    PrecisionName | None,
    typer.Option("--precision", help=_PRECISION_HELP, show_default="as in an existing index, else float32"),
]
TaskPrecision = Annotated[
    PrecisionName | None,
    typer.Option("--precision", help=f"{_PRECISION_HELP} The same as --set elmo.precision=…", show_default="float32"),
]
OwnPrecision = Annotated[
    PrecisionName | None, typer.Option("--precision", help=_PRECISION_HELP, show_default="as in training")
]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:1 …")]

# --- Results ---------------------------------------------------------------------------------------------------------

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ResultJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout.")]
FiguresJson = Annotated[bool, typer.Option("--json", help="Print the figures as JSON on stdout.")]
TaskJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
ReportFolder = Annotated[
    Path | None,
    typer.Option(*OUTPUT_NAMES, help="A folder for the page (HTML), plots (PNG, SVG) and figures (JSON)."),
]
ReportOverwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an existing report in --output.")]

# --- Runs ------------------------------------------------------------------------------------------------------------

Train = Annotated[list[str], typer.Option("--train", help="Training files or globs. Repeatable.")]
RunFolder = Annotated[Path, typer.Option(*OUTPUT_NAMES, help="The run's folder.")]
Resume = Annotated[bool, typer.Option("--resume", help="Resume the run in OUTPUT, or start it.")]

# --- Tasks -----------------------------------------------------------------------------------------------------------

TaskName = Annotated[str, typer.Argument(metavar="NAME", help="One of ner, sentiment, nli, qa, srl, coref, tag.")]
Dev = Annotated[list[str], typer.Option("--dev", help="Development files (model selection).")]
Test = Annotated[list[str], typer.Option("--test", help="Test files.")]
OptionalTest = Annotated[list[str] | None, typer.Option("--test", help="Test files.")]
Vectors = Annotated[
    list[str] | None, typer.Option("--vectors", help="Static word vectors as text (GloVe, word2vec). Repeatable.")
]
Preset = Annotated[str, typer.Option(help="small, paper, or a TOML file.")]
TaskSet = Annotated[list[str] | None, typer.Option("--set", help="Change a setting: --set elmo.place=both.")]
Seeds = Annotated[str, typer.Option(help="Random seeds, separated by spaces or commas.")]
Processes = Annotated[int | None, typer.Option(min=1, help="Number of parallel runs; by default one per core.")]
RunsFolder = Annotated[
    Path, typer.Option(*OUTPUT_NAMES, help="A folder for the runs and the report; repeat the command to resume.")
]

# --- How values are read ---------------------------------------------------------------------------------------------


def choose_output(argument: Place | None, option: Place | None, name: str) -> Place:
    """The output path, from the argument (called `name` in the help) or the option; exactly one must be given."""
    if argument is None and option is None:
        raise typer.BadParameter(f"say what to write, as {name} or with --output.", param_hint=name)
    if argument is not None and option is not None:
        raise typer.BadParameter(
            f"{name} {argument} and --output {option} both say what to write: give one of them.", param_hint=name
        )
    chosen = argument if argument is not None else option
    assert chosen is not None
    return chosen


def settle_input(
    given: InputKind | None, paths: Sequence[Path] = (), *, otherwise: InputKind = DEFAULT_INPUT, look: bool = True
) -> InputKind:
    """How a command reads its text: as requested, else by default; with a warning if the files suggest otherwise.

    Args:
        given: what the user requested, if anything.
        paths: the files to look into.
        otherwise: the default.
        look: whether to look into the files for signs of the other kind; readers that see each line once check by
            themselves.
    """
    if given == "text" and (shard := next(filter(is_shard, paths), None)):
        warnings.warn(
            f"{shard} was written by elmokit corpus shard, so it is read as tokens: leave --input out.",
            ElmokitWarning,
            stacklevel=2,
        )
    if look:
        warn_of_files(paths, given or otherwise)
    return given or otherwise


def use_threads(threads: int | None) -> None:
    """Limit torch to this number of cores; None uses all."""
    import torch

    from elmokit.cores import usable_cores

    torch.set_num_threads(threads or usable_cores())


def parse_layers(text: str) -> "Layers":
    """One number is a layer, several are weights; words are left to the embedder."""
    if "," not in text:
        try:
            return int(text)
        except ValueError:
            return text
    _warn_of_layer_numbers(text)
    try:
        return [float(weight) for weight in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a list of numbers.", param_hint="--layers") from None


def _warn_of_layer_numbers(text: str) -> None:
    """Warn about weights that look like layer numbers."""
    from elmokit.embedding.pooling import look_like_numbers, warn_of_numbers

    parts = [part.strip() for part in text.split(",")]
    if all(part.isascii() and part.isdigit() for part in parts) and look_like_numbers(numbers := [*map(int, parts)]):
        warn_of_numbers(numbers)


def parse_seeds(seeds: str) -> list[int]:
    """Distinct numbers, separated by spaces or commas."""
    words = seeds.replace(",", " ").split()
    if not words or not all(word.isascii() and word.isdecimal() for word in words):
        raise typer.BadParameter(f"{seeds!r} is not a list of numbers such as '1 2 3'.", param_hint="--seeds")
    numbers = [int(word) for word in words]
    if len(set(numbers)) != len(numbers):
        raise typer.BadParameter(f"{seeds!r} repeats a seed: give distinct ones.", param_hint="--seeds")
    return numbers


def parse_changes(changes: list[str] | None) -> dict[str, str]:
    """Changed settings by name, from NAME=VALUE."""
    found = {}
    for change in changes or []:
        name, equals, value = change.partition("=")
        if not equals:
            raise typer.BadParameter(f"{change!r} is not NAME=VALUE.", param_hint="--set")
        found[name.strip()] = value.strip()
    return found


def add_precision(changes: list[str] | None, precision: str | None) -> list[str] | None:
    """The changed settings of a task, with the one that --precision stands for."""
    return changes if precision is None else [*(changes or []), f"elmo.precision={precision}"]


def find_data(given: Path | None, place: str) -> Path:
    """The given folder of an analysis's data, or the default one inside $ELMOKIT_DATA."""
    root = os.environ.get("ELMOKIT_DATA")
    if given is None and not root:
        raise typer.BadParameter(
            f"name the folder of the data, or set ELMOKIT_DATA to a folder that has {place}.", param_hint="--data"
        )
    folder = given if given is not None else Path(root or "", place)
    if not folder.is_dir():
        raise typer.BadParameter(f"{folder} is not a folder.", param_hint="--data")
    return folder
