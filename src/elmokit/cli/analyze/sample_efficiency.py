"""`elmokit analyze sample-efficiency`: a task on growing shares of its training data, with and without ELMo."""

from typing import Annotated

import typer

from elmokit.cli import options
from elmokit.cli.analyze.reports import finish
from elmokit.cli.experiments import read_experiment, watch_runs


def sample_efficiency(
    name: options.TaskName,
    train: options.Train,
    dev: options.Dev,
    test: options.Test,
    output: options.RunsFolder,
    model: options.Model = options.DEFAULT_MODEL,
    fractions: Annotated[
        str, typer.Option(help="Shares of the training examples, above 0 and up to 1, comma-separated.")
    ] = "0.001,0.01,0.1,0.5,1",
    least_steps: Annotated[
        int, typer.Option(min=1, help="Steps allowed on a small share, but never more than on the full data.")
    ] = 1000,
    seeds: options.Seeds = "1 2 3",
    vectors: options.Vectors = None,
    preset: options.Preset = "small",
    changes: options.TaskSet = None,
    processes: options.Processes = None,
    as_json: options.TaskJson = False,
) -> None:
    """Plot scores by share of the training data, and how much data and how many epochs ELMo saves (Figure 1).

    \b
    Examples:
      elmokit analyze sample-efficiency srl --train train.conll --dev dev.conll --test test.conll \\
        --output efficiency --fractions 0.01,0.1,1
    """  # noqa: D301
    shares = parse_fractions(fractions)
    files = {"train": train, "dev": dev, "test": test, "vectors": vectors}
    experiment = read_experiment(
        name,
        files,
        output,
        seeds=seeds,
        preset=preset,
        changes=changes,
        processes=processes,
        varied=("train_fraction",),
    )
    from elmokit.analysis import analyze_sample_efficiency

    with watch_runs(experiment, 2 * len(shares)) as (on_embedding, on_run):
        report = analyze_sample_efficiency(
            experiment, model, fractions=shares, least_steps=least_steps, on_embedding=on_embedding, on_run=on_run
        )
    finish(report, output / "report", as_json, overwrite=True)


def parse_fractions(fractions: str) -> list[float]:
    """Distinct numbers above 0 and up to 1, in ascending order."""
    try:
        shares = sorted(float(word) for word in fractions.replace(",", " ").split())
    except ValueError:
        shares = []
    if not shares or not all(0 < share <= 1 for share in shares) or len(set(shares)) != len(shares):
        raise typer.BadParameter(
            f"{fractions!r} is not a list of distinct numbers above 0 and up to 1, such as 0.01,0.1,1.",
            param_hint="--fractions",
        )
    return shares
