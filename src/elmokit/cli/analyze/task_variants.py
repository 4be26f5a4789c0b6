"""`elmokit analyze mixing` and `placement`: a task with ELMo in several ways, over seeds."""

from collections.abc import Callable
from typing import Literal

from elmokit.cli import options
from elmokit.cli.analyze.reports import finish
from elmokit.cli.experiments import read_experiment, watch_runs
from elmokit.cli.paths import check_files, check_model


def _command(study: Literal["mixing", "placement"], help: str) -> Callable[..., None]:
    """The command of a study; both have the same options."""

    def run(
        name: options.TaskName,
        train: options.Train,
        dev: options.Dev,
        test: options.Test,
        output: options.RunsFolder,
        model: options.Model = options.DEFAULT_MODEL,
        seeds: options.Seeds = "1 2 3",
        vectors: options.Vectors = None,
        preset: options.Preset = "small",
        changes: options.TaskSet = None,
        processes: options.Processes = None,
        as_json: options.TaskJson = False,
    ) -> None:
        files = {"train": train, "dev": dev, "test": test, "vectors": vectors}
        check_files(*files.values())
        check_model(model)
        from elmokit.analysis import analyze_mixing, analyze_placement
        from elmokit.analysis.tasks.variants import MIXING, PLACEMENT

        analyze, own = (analyze_mixing, MIXING) if study == "mixing" else (analyze_placement, PLACEMENT)
        experiment = read_experiment(
            name, files, output, seeds=seeds, preset=preset, changes=changes, processes=processes, varied=own.varied
        )
        with watch_runs(experiment, 1 + len(own.rows)) as (on_embedding, on_run):
            report = analyze(experiment, model, on_embedding=on_embedding, on_run=on_run)
        finish(report, output / "report", as_json, overwrite=True)

    run.__name__, run.__doc__ = study, help
    return run


mixing = _command(
    "mixing",
    """Compare layer choices: the last layer alone, all layers with λ = 1 or 0.001, without γ (the paper's Table 2).

    \b
    Examples:
      elmokit analyze mixing srl --train train.conll --dev dev.conll --test test.conll --output mixing
    """,
)
placement = _command(
    "placement",
    """Compare where ELMo is added: at the input, at the output of the task's encoder, or both (the paper's Table 3).

    \b
    Examples:
      elmokit analyze placement nli --train train.jsonl --dev dev.jsonl --test test.jsonl --output places
    """,
)
