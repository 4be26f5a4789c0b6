"""`elmokit task`: train, evaluate and use models of the seven tasks, and compare them with and without ELMo."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elmokit.cli import options
from elmokit.cli.commands import Commands
from elmokit.cli.experiments import figures_line, read_experiment, watch_runs
from elmokit.cli.paths import check_exists, check_files, check_model
from elmokit.cli.progress import training_bar
from elmokit.cli.task_evaluate import evaluate
from elmokit.cli.task_inputs import read_rows
from elmokit.cli.task_models import TRAINED_REMEDY, OwnModelOption, ThreadsOption, TrainedArgument, load_task_model
from elmokit.wording import counted

if TYPE_CHECKING:
    from elmokit.tasks.comparison import Comparison

task = Commands("task", "Seven tasks, with and without ELMo.")

FieldOption = Annotated[
    str | None, typer.Option(help="Input field of nli (premise, hypothesis) or qa (context, question).")
]


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
    name: options.TaskName,
    trained: TrainedArgument,
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT", help="The task's input; for files use --input-file.")
    ] = None,
    premise: FieldOption = None,
    hypothesis: FieldOption = None,
    context: FieldOption = None,
    question: FieldOption = None,
    input_file: Annotated[
        list[str] | None,
        typer.Option(
            "--input-file",
            help="One example per line, tab-separated fields; coref: one document per file; - is stdin.",
        ),
    ] = None,
    model: OwnModelOption = None,
    threads: ThreadsOption = None,
    precision: options.OwnPrecision = None,
    as_json: options.TaskJson = False,
) -> None:
    """Predict for your own text: one TEXT per field of the task.

    \b
    Examples:
      elmokit task predict ner run/model "Ada Lovelace wrote to Charles Babbage in London."
      elmokit task predict ner run/model --input-file letters.txt --json
      elmokit task predict nli run/model --premise "A dog runs ." --hypothesis "An animal moves ."
      elmokit task predict qa run/model --context "Ada was born in London." --question "Where was Ada born?"
      elmokit task predict coref run/model --input-file story.txt
    """  # noqa: D301
    check_exists(trained, TRAINED_REMEDY)
    check_files([file for file in input_file or [] if file != "-"])
    check_model(model)
    own = _find(name)
    named = {"premise": premise, "hypothesis": hypothesis, "context": context, "question": question}
    rows = read_rows(own, texts, named, input_file)
    options.use_threads(threads)
    loaded = load_task_model(name, trained, model, threads, precision)
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    for example, prediction in own.predict_raw(loaded, rows):
        if as_json:
            typer.echo(json.dumps(own.to_json(example, prediction, loaded.settings), ensure_ascii=False))
        else:
            console.print(own.to_text(example, prediction, loaded.settings))


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
    from elmokit.tasks.comparison import P_TEXT, PAPER, setting_text
    from elmokit.tasks.comparison import compare as put_side_by_side
    from elmokit.tasks.variants import BASELINE, Variant, check_experiment_folder, run_all, save_random

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

    from elmokit.tasks.comparison import PAPER, mean_text, p_text

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
