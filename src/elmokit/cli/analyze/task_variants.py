"""`elmokit analyze mixing` and `placement`: a task with ELMo in several ways, over seeds."""

from pathlib import Path
from typing import TYPE_CHECKING

from elmokit.cli.analyze.options import finish
from elmokit.cli.model_option import DEFAULT_MODEL, ModelOption
from elmokit.cli.paths import check_files, check_model
from elmokit.cli.task_options import (
    DevOption,
    JsonOption,
    NameArgument,
    NeededTestOption,
    PresetOption,
    ProcessesOption,
    RunsOption,
    SeedsOption,
    SetOption,
    TrainOption,
    VectorsOption,
    read_experiment,
    run_experiment,
)

if TYPE_CHECKING:
    from elmokit.analysis.tasks.variants import Study
    from elmokit.tasks.variants import Experiment


def mixing(
    name: NameArgument,
    train: TrainOption,
    dev: DevOption,
    test: NeededTestOption,
    output: RunsOption,
    model: ModelOption = DEFAULT_MODEL,
    seeds: SeedsOption = "1 2 3",
    vectors: VectorsOption = None,
    preset: PresetOption = "small",
    changes: SetOption = None,
    processes: ProcessesOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare layer choices: the last layer alone, all layers with λ = 1 or 0.001, without γ (the paper's Table 2).

    \b
    Examples:
      elmokit analyze mixing srl --train train.conll --dev dev.conll --test test.conll --output mixing
    """  # noqa: D301
    check_files(train, dev, test, vectors)
    check_model(model)
    from elmokit.analysis.tasks.variants import MIXING

    files = {"train": train, "dev": dev, "test": test, "vectors": vectors}
    experiment = read_experiment(
        name, files, output, seeds=seeds, preset=preset, changes=changes, processes=processes, varied=MIXING.varied
    )
    _run(MIXING, experiment, model, output, as_json)


def placement(
    name: NameArgument,
    train: TrainOption,
    dev: DevOption,
    test: NeededTestOption,
    output: RunsOption,
    model: ModelOption = DEFAULT_MODEL,
    seeds: SeedsOption = "1 2 3",
    vectors: VectorsOption = None,
    preset: PresetOption = "small",
    changes: SetOption = None,
    processes: ProcessesOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare where ELMo is added: at the input, at the output of the task's encoder, or both (the paper's Table 3).

    \b
    Examples:
      elmokit analyze placement nli --train train.jsonl --dev dev.jsonl --test test.jsonl --output places
    """  # noqa: D301
    check_files(train, dev, test, vectors)
    check_model(model)
    from elmokit.analysis.tasks.variants import PLACEMENT

    files = {"train": train, "dev": dev, "test": test, "vectors": vectors}
    experiment = read_experiment(
        name, files, output, seeds=seeds, preset=preset, changes=changes, processes=processes, varied=PLACEMENT.varied
    )
    _run(PLACEMENT, experiment, model, output, as_json)


def _run(study: "Study", experiment: "Experiment", model: str, output: Path, as_json: bool) -> None:
    from elmokit.analysis.tasks.variants import report_study, study_variants
    from elmokit.tasks.variants import BASELINE

    runs = run_experiment(experiment, [BASELINE, *study.variants(model)])
    finish(report_study(study, study_variants(study, runs, model), runs), output / "report", as_json, overwrite=True)
