"""`elmokit pretrain` and `elmokit finetune`: train a model on text."""

import json
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmokit.cli import options
from elmokit.cli.paths import check_files, check_model
from elmokit.cli.progress import is_first_process, training_bar
from elmokit.wording import counted

if TYPE_CHECKING:
    from elmokit.text.input_kind import InputKind
    from elmokit.training.config import RunConfig
    from elmokit.training.run_files import RunFiles, RunResult

HeldoutOption = Annotated[list[str] | None, typer.Option("--heldout", help="Held-out files or globs.")]
VocabOption = Annotated[Path | None, typer.Option("--vocab", help="A vocabulary file instead of counting one.")]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", help="Change a setting: --set optimizer.learning_rate=1e-3.")
]
ThreadsOption = Annotated[int | None, typer.Option(min=1, help="Cores: 2 gives each direction its own.")]
TensorboardOption = Annotated[bool, typer.Option("--tensorboard", help="Also write TensorBoard files.")]
_INPUT = "corpus.input"


def pretrain(
    output: options.RunFolder,
    config: Annotated[
        str | None, typer.Argument(metavar="CONFIG", help="A TOML file, or a preset: tiny, mini, small …")
    ] = None,
    train: Annotated[
        list[str] | None, typer.Option("--train", help="Training files or globs. Repeatable.  [required]")
    ] = None,
    heldout: HeldoutOption = None,
    vocab: VocabOption = None,
    input_: options.TrainingInput = None,
    resume: options.Resume = False,
    init: Annotated[str | None, typer.Option(help="Start from the weights of this model.")] = None,
    skip_tokens: Annotated[
        int, typer.Option(min=0, help="Number of predictions to skip at the start of the text.")
    ] = 0,
    finish: Annotated[
        bool,
        typer.Option("--finish", help="Only tell the run in OUTPUT to start its decay (optimizer.schedule wsd)."),
    ] = False,
    changes: SetOption = None,
    threads: ThreadsOption = None,
    device: options.Device = "cpu",
    tensorboard: TensorboardOption = False,
    as_json: options.ResultJson = False,
) -> None:
    """Train a biLM from text. If interrupted, repeat the command with --resume.

    \b
    Examples:
      elmokit pretrain tiny --train sentences.txt --output run --set loss.num_negatives=8
      elmokit pretrain mini --train 'text/*.txt.xz' --heldout heldout.txt.xz --output run --resume
      torchrun --nproc-per-node 2 -m elmokit pretrain mini --train 'text/*.txt.xz' --output run
      elmokit pretrain --finish --output run
    """  # noqa: D301
    if finish:
        settings_given = config or train or heldout or vocab or input_ or init or skip_tokens or changes
        _ask_to_finish(output, alone=not (settings_given or resume or threads or tensorboard or as_json))
        return
    if config is None:
        raise typer.BadParameter("give a TOML file or a preset, such as tiny.", param_hint="CONFIG")
    if not train:
        raise typer.BadParameter("give training files or globs.", param_hint="--train")
    changed = options.parse_changes(changes)
    from elmokit.training.config import PretrainConfig, read_run

    changed = _choose_input(changed, input_, config, output if resume else None)
    settings = read_run(PretrainConfig, config, changed)
    check_files(train, heldout, [str(vocab)] if vocab and not resume else [])
    check_model(init)
    _look_at_text(train, input_, settings)
    from elmokit.training.pretraining import pretrain as run
    from elmokit.training.run_files import RunFiles

    files = RunFiles(
        train,
        heldout or [],
        output,
        vocab=vocab,
        resume=resume,
        init=init,
        skip_tokens=skip_tokens,
        threads=threads,
        device=device,
        tensorboard=tensorboard,
    )
    _train(partial(run, settings), files, as_json=as_json)


def finetune(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A path, a published name or a Hub id.")],
    train: options.Train,
    output: options.RunFolder,
    heldout: HeldoutOption = None,
    config: Annotated[str, typer.Option(help="A TOML file or a preset.")] = "default",
    extend_vocab: Annotated[
        bool, typer.Option("--extend-vocab", help="Add words of the text that the model does not know.")
    ] = False,
    freeze: Annotated[
        list[str] | None, typer.Option(help="Parts to leave as they are: encoder, lstm, softmax.")
    ] = None,
    vocab: VocabOption = None,
    input_: options.TrainingInput = None,
    resume: options.Resume = False,
    changes: SetOption = None,
    threads: ThreadsOption = None,
    device: options.Device = "cpu",
    tensorboard: TensorboardOption = False,
    as_json: options.ResultJson = False,
) -> None:
    """Adapt a model to text of a domain; training stops when held-out perplexity rises, and the best model is kept.

    \b
    Examples:
      elmokit finetune my-model --train sentences.txt --heldout sentences.txt --output tuned --set batch_size=4
      elmokit finetune original --train 'notes/*.txt' --heldout heldout.txt --output tuned --extend-vocab
    """  # noqa: D301
    changed = options.parse_changes(changes)
    if freeze:
        changed["freeze"] = json.dumps(freeze)
    from elmokit.training.config import FinetuneConfig, read_run

    changed = _choose_input(changed, input_, config, output if resume else None)
    settings = read_run(FinetuneConfig, config, changed)
    check_files(train, heldout, [str(vocab)] if vocab and not resume else [])
    check_model(model)
    _look_at_text(train, input_, settings)
    from elmokit.training.finetuning import finetune as run
    from elmokit.training.run_files import RunFiles

    files = RunFiles(
        train,
        heldout or [],
        output,
        vocab=vocab,
        resume=resume,
        threads=threads,
        device=device,
        tensorboard=tensorboard,
    )
    _train(partial(run, model, settings, extend_vocab=extend_vocab), files, as_json=as_json)


def _train(run: "Callable[..., RunResult]", files: "RunFiles", *, as_json: bool) -> None:
    """Train with a progress bar, and print the result."""
    from elmokit.training.allocator import keep_freed_memory

    if files.threads:
        options.use_threads(files.threads)
    keep_freed_memory()
    with training_bar(files.output) as bar:
        done = run(files, report=bar.report, reading=bar.reading, notify=bar.notify)
    _print(done, as_json=as_json)
    _end_at_once()


def _ask_to_finish(output: Path, *, alone: bool) -> None:
    """Write the request into the run's folder; the run reads it before its next step."""
    if not alone:
        raise typer.BadParameter(
            "it only asks the run in --output to begin its decay: leave CONFIG and all other options out.",
            param_hint="--finish",
        )
    from elmokit.training.run_folder import request_finish

    before = "" if request_finish(output) else ", as it was asked to before"
    typer.echo(f"the run in {output} begins its decay before its next step, now or when resumed{before}.", err=True)


def _choose_input(
    changes: dict[str, str], given: "InputKind | None", config: str, resumed: Path | None
) -> dict[str, str]:
    """The changed settings with --input added, or the input of the run to resume, unless the user set it."""
    from elmokit.training.config import names_setting
    from elmokit.training.run_folder import input_of_run

    if given is not None:
        return changes | {_INPUT: given}
    if resumed is None or _INPUT in changes or names_setting(config, _INPUT):
        return changes
    before = input_of_run(resumed)
    return changes if before is None else changes | {_INPUT: before}


def _look_at_text(train: list[str], given: "InputKind | None", settings: "RunConfig") -> None:
    """Warn if the training text looks like another kind of input than the run expects."""
    from elmokit.text.files import find_files

    if is_first_process():
        options.settle_input(given, find_files(train), otherwise=settings.corpus.input)


def _print(done: "RunResult", *, as_json: bool) -> None:
    if not is_first_process():
        return
    if as_json:
        typer.echo(json.dumps(done.to_dict()))
        return
    trained = f"{counted(done.steps, 'step')}, {counted(done.predictions, 'prediction')} per direction"
    lines = [f"wrote {done.model_path} after {trained}"]
    for label, figures in (("before", done.before), ("held-out", done.heldout)):
        for state, found in figures.items():
            lines.append(
                f"{label} perplexity ({state}): {found['average']:.2f} (forward {found['forward']['perplexity']:.2f}, "
                f"backward {found['backward']['perplexity']:.2f}); {counted(found['vocab_size'], 'word')}, "
                f"{found['oov_rate']:.1%} unknown"
            )
    typer.echo("\n".join(lines))


def _end_at_once() -> None:
    """End one of several processes without interpreter shutdown, where gloo's threads have been seen to abort."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
