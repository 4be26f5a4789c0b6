"""`elmokit task`: train, evaluate and use models of the seven tasks, and compare them with and without ELMo."""

import json
import os.path
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from elmokit.cli import options
from elmokit.cli.commands import Commands
from elmokit.cli.experiments import figures_line, read_experiment, watch_runs
from elmokit.cli.paths import check_exists, check_files, check_model
from elmokit.cli.progress import progress_bar, training_bar
from elmokit.cli.task_evaluate import evaluate
from elmokit.cli.task_inputs import STDIN, InputReader, check_sources
from elmokit.cli.task_inputs import Kind as InputFormat
from elmokit.cli.task_models import TRAINED_REMEDY, OwnModelOption, ThreadsOption, load_task_model
from elmokit.wording import counted

if TYPE_CHECKING:
    from elmokit.tasks.experiments.comparison import Comparison

task = Commands("task", "Seven tasks, with and without ELMo.")

FieldOption = Annotated[
    str | None, typer.Option(help="Input field of nli (premise, hypothesis) or qa (context, question).")
]
OutputFormat = Literal["text", "json", "csv", "conll", "transformers"]


@task.command()
def train(
    name: options.TaskName,
    train: options.Train,
    dev: options.Dev,
    output: options.RunFolder,
    test: options.OptionalTest = None,
    vectors: options.Vectors = None,
    model: options.Model = options.DEFAULT_MODEL,
    preset: options.Preset = "small",
    changes: options.TaskSet = None,
    resume: options.Resume = False,
    threads: ThreadsOption = None,
    precision: options.TaskPrecision = None,
    as_json: options.TaskJson = False,
) -> None:
    """Train a task model. If interrupted, repeat the command with --resume.

    \b
    Examples:
      elmokit task train ner --train eng.train --dev eng.testa --test eng.testb --output run
      elmokit task train ner --train eng.train --dev eng.testa --set elmo.place=none --output baseline
    """  # noqa: D301
    check_files(train, dev, test, vectors)
    check_model(model)
    from elmokit.tasks.config import read_task_config
    from elmokit.tasks.runner import TaskFiles, train_task

    own = _find(name)
    config = read_task_config(name, preset, options.parse_changes(options.add_precision(changes, precision)))
    options.use_threads(threads)
    files = TaskFiles(train, dev, output, test or [], vectors=vectors or [], bilm=model, resume=resume, threads=threads)
    with training_bar(output, metric=own.metric, unit="examples") as bar:
        result = train_task(own, config, files, report=bar.report, embedding=bar.embedding)
    if as_json:
        typer.echo(json.dumps(result))
        return
    for split in ("dev", "test"):
        if split in result:
            typer.echo(f"{split}: {figures_line(result[split])}")
    for mix in result["mixes"]:
        shares = " ".join(f"{weight:.2f}" for weight in mix["layer_weights"])
        typer.echo(f"layers at the {mix['place']}: {shares}, γ {mix['gamma']:.2f}")
    typer.echo(f"wrote {output / 'model'} (best of {counted(result['epochs'], 'epoch')})", err=True)


task.command()(evaluate)


@task.command()
def predict(
    source: Annotated[
        str,
        typer.Argument(metavar="MODEL", help="A task model: a run's folder, the model/ in it, or a packaged name."),
    ],
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT", help="Any number of inputs; for files use --input-file.")
    ] = None,
    premise: FieldOption = None,
    hypothesis: FieldOption = None,
    context: FieldOption = None,
    question: FieldOption = None,
    input_file: Annotated[
        list[str] | None,
        typer.Option(
            "--input-file",
            help="One input per line, tab-separated fields; coref: one document per file; - is stdin. Repeatable.",
        ),
    ] = None,
    kind: Annotated[
        InputFormat | None,
        typer.Option(
            "--input",
            help="Inputs are raw text, space-separated tokens, or JSON lines with the task's fields and an id.",
            show_default="jsonl for .jsonl files, else text",
        ),
    ] = None,
    format: Annotated[
        OutputFormat,
        typer.Option("--format", help="How to print; transformers is the layout of its NER pipeline."),
    ] = "text",
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    num_best: Annotated[int, typer.Option("--num-best", min=1, help="Number of answers per question (qa).")] = 1,
    batch_size: Annotated[int | None, typer.Option("--batch-size", min=1, help="Inputs computed at a time.")] = None,
    errors: Annotated[
        Literal["strict", "skip"], typer.Option(help="A bad line: stop, or name it on stderr and go to the next.")
    ] = "strict",
    model: OwnModelOption = None,
    threads: ThreadsOption = None,
    precision: options.OwnPrecision = None,
) -> None:
    """Predict for your own text.

    \b
    Examples:
      elmokit task predict run "Ada Lovelace wrote to Charles Babbage in London."
      elmokit task predict run --input-file letters.txt --json
      elmokit task predict run --input-file texts.jsonl --format csv --errors skip
      elmokit task predict nli-run --premise "A dog runs ." --hypothesis "An animal moves ."
      elmokit task predict qa-run --context "Ada was born in London." --question "Where was Ada born?"
      elmokit task predict coref-run --input-file story.txt
    """  # noqa: D301
    given = {"premise": premise, "hypothesis": hypothesis, "context": context, "question": question}
    named = {name: text for name, text in given.items() if text is not None}
    name, source, texts = _old_form(source, texts or [], bool(named or input_file))
    check_files([file for file in input_file or [] if file != STDIN])
    check_model(model)
    from elmokit.cli.task_output import check_format, to_text, write_header, write_record

    shape: OutputFormat = "json" if as_json else format
    loaded = load_task_model(name, source, model, threads, precision)
    check_format(loaded.task, shape)
    check_sources(loaded.task, given.keys(), (texts, named, input_file))
    options.use_threads(threads)
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    with progress_bar("predicting", beside_output=True) as bar:
        reader = InputReader(loaded.task, kind, errors == "skip", bar)
        inputs = reader.read_files(input_file) if input_file else reader.read_arguments(texts, named)
        typer.echo(write_header(loaded.task, shape), nl=False)
        for record in loaded.predict_stream(inputs, num_best=num_best, batch_size=batch_size):
            if shape == "text":
                console.print(to_text(record))
            else:
                typer.echo(write_record(record, shape), nl=False)


@task.command()
def compare(
    name: options.TaskName,
    train: options.Train,
    dev: options.Dev,
    test: options.Test,
    output: options.RunsFolder,
    model: options.Model = options.DEFAULT_MODEL,
    also: Annotated[
        list[str] | None,
        typer.Option(
            "--also",
            help="Another biLM: NAME=MODEL, or random (same size, untrained). Repeatable.",
        ),
    ] = None,
    seeds: options.Seeds = "1 2 3",
    vectors: options.Vectors = None,
    preset: options.Preset = "small",
    changes: options.TaskSet = None,
    processes: options.Processes = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Total cores; by default all. Each run uses one.")] = None,
    precision: options.TaskPrecision = None,
    as_json: options.TaskJson = False,
) -> None:
    """Train with and without ELMo over seeds and print a row of the paper's Table 1. Repeat it to resume.

    \b
    Examples:
      elmokit task compare ner --train eng.train --dev eng.testa --test eng.testb --output ner
      elmokit task compare ner --train eng.train --dev eng.testa --test eng.testb --output ner \\
        --also random --also tuned=finetuned/model
    """  # noqa: D301
    more = _parse_also(also or [])
    files = {"train": train, "dev": dev, "test": test, "vectors": vectors}
    check_model(model)
    changes = options.add_precision(changes, precision)
    experiment = read_experiment(
        name, files, output, seeds=seeds, preset=preset, changes=changes, processes=processes, threads=threads
    )
    if threads:
        options.use_threads(threads)
    from elmokit.filesystem import guard_output, write_text_atomic
    from elmokit.tasks.experiments.comparison import P_TEXT, PAPER, setting_text
    from elmokit.tasks.experiments.comparison import compare as put_side_by_side
    from elmokit.tasks.experiments.variants import BASELINE, Variant, check_experiment_folder, run_all, save_random

    check_experiment_folder(output)
    if "random" in more:
        more["random"] = save_random(model, output / "random-bilm")
    others = [Variant("elmo", "+ ELMo", bilm=model)]
    others += [Variant(own, "+ random weights" if own == "random" else f"+ {own}", bilm=more[own]) for own in more]
    with watch_runs(experiment, 1 + len(others)) as (on_embedding, on_run):
        runs = run_all(experiment, [BASELINE, *others], embedding=on_embedding, done=on_run)
    found = put_side_by_side(runs, BASELINE, others)
    content = {**found.to_dict(), "paper": PAPER[name]._asdict() if name in PAPER else None, "setting": runs.setting()}
    guard_output(output / "comparison.json", kind="a comparison", is_ours=_is_comparison, overwrite=True)
    write_text_atomic(output / "comparison.json", json.dumps(content, ensure_ascii=False, indent=1) + "\n")
    if as_json:
        typer.echo(json.dumps(content, ensure_ascii=False))
    else:
        typer.echo(setting_text(runs))
        _print_comparison(found)
        typer.echo(P_TEXT)
    typer.echo(f"wrote {output / 'comparison.json'}", err=True)


def _is_comparison(path: Path) -> bool:
    try:
        return bool({"paper", "setting"} <= json.loads(path.read_text(encoding="utf-8")).keys())
    except (OSError, ValueError, AttributeError):
        return False


def _parse_also(also: list[str]) -> dict[str, str]:
    """Models by name; "random" has no model yet."""
    found: dict[str, str] = {}
    for word in also:
        name, equals, model = word.partition("=")
        if bool(model) == (name == "random") or (equals and not model):
            raise typer.BadParameter(f"{word!r} is neither NAME=MODEL nor random.", param_hint="--also")
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name) or name in ("baseline", "elmo", *found):
            raise typer.BadParameter(
                f"{name!r} cannot name another biLM: use letters and digits, and not baseline, elmo or a name already "
                "given.",
                param_hint="--also",
            )
        found[name] = model
    return found


def _print_comparison(found: "Comparison") -> None:
    from statistics import fmean

    from rich.console import Console
    from rich.table import Table

    from elmokit.tasks.experiments.comparison import PAPER, mean_text, p_text

    paper = PAPER.get(found.task)
    table = Table("variant", "metric", "baseline", "score", "increase", "relative error reduction", "p")
    for side in found.others:
        relative = found.relative(side)
        table.add_row(
            side.label,
            found.metric,
            mean_text(found.baseline.test),
            mean_text(side.test),
            f"{found.increase(side):+.2f}",
            "" if relative is None else f"{relative:.1f}%",
            p_text(side.p),
        )
        for figure, scores in side.further.items():
            before = found.baseline.further[figure]
            table.add_row(
                "",
                figure.replace("_", " "),
                mean_text(before),
                mean_text(scores),
                f"{fmean(scores) - fmean(before):+.2f}",
                style="dim",
            )
    if paper is not None:
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


def _old_form(source: str, texts: list[str], has_more: bool) -> tuple[str | None, str, list[str]]:
    """The name of a task, if the arguments are NAME MODEL TEXT … as in earlier versions; then model and texts."""
    from elmokit.recognize import TASK_MODEL, TASK_RUN, identify
    from elmokit.tasks.packaged import packaged_tasks, task_names

    found = identify(texts[0]) if texts else None
    is_task = source in task_names()
    if is_task and texts and os.path.exists(texts[0]):  # anything but a task model is refused by its name
        return source, texts[0], texts[1:]
    if found is not None and found.family in (TASK_MODEL, TASK_RUN):
        return source, texts[0], texts[1:]
    if source not in packaged_tasks() and not os.path.exists(source):
        if is_task and texts and (has_more or len(texts) > 1):
            if not texts[0]:
                raise typer.BadParameter("it is empty: give a path.", param_hint="MODEL")
            check_exists(Path(texts[0]), TRAINED_REMEDY)
        check_exists(Path(source), TRAINED_REMEDY)
    return None, source, texts
