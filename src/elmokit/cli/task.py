"""`elmokit task`: train, evaluate and use models of the six tasks, and compare them with and without ELMo."""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elmokit.cli.pretrain import parse_changes
from elmokit.cli.training_bar import training_bar

if TYPE_CHECKING:
    from elmokit.tasks.compare import Comparison
    from elmokit.tasks.trained import TrainedTask

task = typer.Typer(name="task", help="Six tasks, with and without ELMo.", no_args_is_help=True)

NAMES = "ner, sentiment, nli, qa, srl, coref"
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help=f"One of {NAMES}.")]
TrainOption = Annotated[list[str], typer.Option("--train", help="Training files or globs; may be repeated.")]
DevOption = Annotated[list[str], typer.Option("--dev", help="Files to choose on.")]
TestOption = Annotated[list[str] | None, typer.Option("--test", help="Files to report on.")]
VectorsOption = Annotated[
    list[str] | None, typer.Option("--vectors", help="Static word vectors as text (GloVe, word2vec); may be repeated.")
]
PresetOption = Annotated[str, typer.Option(help="small, paper, or a TOML file.")]
SetOption = Annotated[list[str] | None, typer.Option("--set", help="Change a setting: --set elmo.place=both.")]
ModelOption = Annotated[str | None, typer.Option("--model", help="The biLM: a path, a published name or a Hub id.")]
OutputOption = Annotated[Path, typer.Option("--output", help="The run's folder.")]
ThreadsOption = Annotated[int | None, typer.Option(min=1, help="Cores to use.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
TrainedArgument = Annotated[Path, typer.Argument(metavar="TRAINED", help="The folder model/ of a run.")]


@task.command()
def train(
    name: NameArgument,
    train: TrainOption,
    dev: DevOption,
    output: OutputOption,
    test: TestOption = None,
    vectors: VectorsOption = None,
    model: ModelOption = None,
    preset: PresetOption = "small",
    changes: SetOption = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in OUTPUT, or begin it.")] = False,
    threads: ThreadsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train a task model; killed at any moment, it goes on with --resume.

    \b
    Examples:
      elmokit task train ner --train eng.train --dev eng.testa --test eng.testb --model mini --output run
      elmokit task train ner --train eng.train --dev eng.testa --set elmo.place=none --output baseline
    """  # noqa: D301
    from elmokit.tasks.registry import TASKS
    from elmokit.tasks.runner import TaskFiles, train_task

    own = _find(name)
    config = _read_config(name, preset, changes)
    if model is None and config.elmo.place != "none":
        raise typer.BadParameter("name the biLM, or leave ELMo out with --set elmo.place=none.", param_hint="--model")
    _use_threads(threads)
    files = TaskFiles(train, dev, output, test or [], vectors=vectors or [], bilm=model, resume=resume, threads=threads)
    with training_bar(output, metric=own.metric, unit="examples") as bar, _embedding_bar() as embedding:
        result = train_task(own, config, files, tasks=TASKS, report=bar.report, embedding=embedding)
    if as_json:
        typer.echo(json.dumps(result))
        return
    for split in ("dev", "test"):
        if split in result:
            typer.echo(f"{split}: {_line(result[split])}")
    for mix in result["mixes"]:
        shares = " ".join(f"{weight:.2f}" for weight in mix["layer_weights"])
        typer.echo(f"layers at the {mix['place']}: {shares}, γ {mix['gamma']:.2f}")
    typer.echo(f"wrote {output / 'model'} (best of {result['epochs']} epochs)", err=True)


@task.command()
def evaluate(
    name: NameArgument,
    trained: TrainedArgument,
    files: Annotated[list[str], typer.Argument(metavar="FILES…", help="Files of the task, with gold labels.")],
    model: ModelOption = None,
    threads: ThreadsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Score a trained model on files.

    \b
    Examples:
      elmokit task evaluate ner run/model eng.testb
      elmokit task evaluate ner run/model eng.testb --json
    """  # noqa: D301
    from elmokit.tasks.runner import evaluate_task

    _use_threads(threads)
    figures = evaluate_task(_load(name, trained, model, threads), files)
    typer.echo(json.dumps(figures) if as_json else _line(figures))


@task.command()
def predict(
    name: NameArgument,
    trained: TrainedArgument,
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT…", help="What the task reads; files with --input-file.")
    ] = None,
    input_file: Annotated[
        list[str] | None, typer.Option("--input-file", help="A text a line, its fields between tabs; - is stdin.")
    ] = None,
    model: ModelOption = None,
    threads: ThreadsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Predict for texts of your own: one text, or as many as the task has fields.

    \b
    Examples:
      elmokit task predict ner run/model "Ada Lovelace wrote to Charles Babbage in London."
      elmokit task predict ner run/model --input-file letters.txt --json
    """  # noqa: D301
    own = _find(name)
    if bool(texts) == bool(input_file):
        raise typer.BadParameter(f"give either {' and '.join(own.fields)} or --input-file.", param_hint="TEXT…")
    rows = [tuple(texts)] if texts else list(_read_rows(input_file or []))
    for number, row in enumerate(rows, 1):
        if len(row) != len(own.fields):
            raise typer.BadParameter(
                f"text {number} has {len(row)} fields, but {name} reads {len(own.fields)}: {', '.join(own.fields)}.",
                param_hint="TEXT…",
            )
    _use_threads(threads)
    loaded = _load(name, trained, model, threads)
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    for example, prediction in own.predict_raw(loaded, rows):
        if as_json:
            typer.echo(json.dumps(own.to_json(example, prediction, loaded.settings), ensure_ascii=False))
        else:
            console.print(own.to_text(example, prediction, loaded.settings))


@task.command()
def compare(
    name: NameArgument,
    train: TrainOption,
    dev: DevOption,
    test: Annotated[list[str], typer.Option("--test", help="Files to report on.")],
    model: Annotated[str, typer.Option("--model", help="The biLM: a path, a published name or a Hub id.")],
    output: OutputOption,
    seeds: Annotated[str, typer.Option(help="Numbers between spaces or commas.")] = "1 2 3",
    vectors: VectorsOption = None,
    preset: PresetOption = "small",
    changes: SetOption = None,
    processes: Annotated[int | None, typer.Option(min=1, help="Runs side by side; by default one a core.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Train with and without ELMo over seeds and print a row of the paper's Table 1; repeat it to go on.

    \b
    Examples:
      elmokit task compare ner --train eng.train --dev eng.testa --test eng.testb --model mini --output ner
    """  # noqa: D301
    from elmokit.tasks.compare import Variant, run_all
    from elmokit.tasks.compare import compare as put_side_by_side
    from elmokit.tasks.runner import TaskFiles, read_sets

    own = _find(name)
    config = _read_config(name, preset, changes)
    numbers = _parse_seeds(seeds)
    shared = ["--preset", preset, *(word for change in changes or [] for word in ("--set", change))]
    variants = [
        Variant("baseline", (*shared, "--set", "elmo.place=none")),
        Variant("elmo", (*shared, "--model", model)),
    ]
    named = {"--train": train, "--dev": dev, "--test": test, "--vectors": vectors or []}
    files = [word for option, paths in named.items() for path in paths for word in (option, path)]
    sets = read_sets(own, config, TaskFiles(train, dev, output, test))
    _prepare(own, model, [example for examples in sets.values() for example in examples])
    results = run_all(name, variants, numbers, files, output, processes=processes, done=_tell_run)
    found = put_side_by_side(own, results, ("baseline", "elmo"), numbers, sets["test"], output)
    if as_json:
        typer.echo(json.dumps(found.to_dict()))
    else:
        _print_comparison(found)


def _prepare(own: Any, model: str, examples: list[Any]) -> None:
    """Embed all data once, before several runs want to."""
    from elmokit.embedding.embedder import Embedder
    from elmokit.tasks.layer_store import LayerStore

    sentences = (s for example in examples for text in own.texts(example) for s in text if s)
    with _embedding_bar() as report:
        LayerStore(Embedder.from_pretrained(model)).prepare(sentences, report)


def _tell_run(name: str, result: dict[str, Any]) -> None:
    typer.echo(f"{name}: test {_line(result['test'])}", err=True)


def _print_comparison(found: "Comparison") -> None:
    from rich.console import Console
    from rich.table import Table

    from elmokit.tasks.compare import PAPER, deviation

    paper = PAPER[found.task]
    table = Table("", "metric", "baseline", "+ ELMo", "increase", "of the error", "p")
    means = [f"{sum(scores) / len(scores):.2f} ± {deviation(scores):.2f}" for scores in (found.baseline, found.elmo)]
    table.add_row(
        f"{found.task}, {len(found.seeds)} seeds",
        found.metric,
        *means,
        f"{found.increase:+.2f}",
        f"{found.relative:.1f}%",
        f"{found.p:.4f}",
    )
    table.add_row(
        f"the paper, {paper.data}",
        paper.metric,
        f"{paper.baseline}",
        f"{paper.elmo}",
        f"{paper.elmo - paper.baseline:+.2f}",
        f"{paper.relative}%",
        "",
        style="dim",
    )
    Console().print(table)


def _find(name: str) -> Any:
    from elmokit.tasks.registry import find_task

    return find_task(name)


def _read_config(name: str, preset: str, changes: list[str] | None) -> Any:
    from elmokit.errors import ConfigError
    from elmokit.tasks.config import TaskConfig
    from elmokit.training.config import read_run

    source = preset if preset.endswith((".toml", ".json")) else f"{name}-{preset}"
    config = read_run(TaskConfig, source, parse_changes(changes))
    if config.task != name:
        raise ConfigError(f"{source} has settings of {config.task}, not of {name}: give those of {name}.")
    return config


def _load(name: str, path: Path, model: str | None, threads: int | None) -> "TrainedTask":
    from elmokit.errors import ConfigError
    from elmokit.tasks.registry import TASKS
    from elmokit.tasks.trained import load_trained

    loaded = load_trained(path, TASKS, bilm=model, threads=threads)
    if loaded.task.name != name:
        raise ConfigError(f"{path} is a model of {loaded.task.name}, not of {name}: name its own task.")
    return loaded


def _read_rows(files: list[str]) -> Iterator[tuple[str, ...]]:
    from elmokit.text.files import open_text
    from elmokit.training.corpus import find_files

    for name in files:
        if name == "-":
            yield from _rows(sys.stdin)
        else:
            for path in find_files([name]):
                with open_text(path) as lines:
                    yield from _rows(lines)


def _rows(lines: Any) -> Iterator[tuple[str, ...]]:
    return (tuple(line.rstrip("\r\n").split("\t")) for line in lines if line.strip())


def _parse_seeds(seeds: str) -> list[int]:
    words = seeds.replace(",", " ").split()
    if not words or not all(word.isdecimal() for word in words) or len(set(words)) != len(words):
        raise typer.BadParameter(f"{seeds!r} is no list of different numbers such as '1 2 3'.", param_hint="--seeds")
    return [int(word) for word in words]


def _use_threads(threads: int | None) -> None:
    import torch

    from elmokit.cores import usable_cores

    torch.set_num_threads(threads or usable_cores())


@contextmanager
def _embedding_bar() -> Iterator[Any]:
    """A bar for the embedding of a data set, on a terminal only."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as display:
        number = display.add_task("embedding", visible=False)
        yield lambda done, total: display.update(number, completed=done, total=total, visible=done < total)


def _line(figures: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in figures.items())
