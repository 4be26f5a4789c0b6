"""Tables of the tasks for `bench/tables.py`: with and without ELMo, which layers, where, on how much data."""

from collections.abc import Mapping
from functools import reduce
from operator import getitem
from statistics import fmean

from bench.results import read_all, source
from elmokit.tasks.config import read_task_config
from elmokit.tasks.experiments.comparison import mean_text, p_text, summary

DATA = {
    "squad": "QA: SQuAD, 34 + 7 + 7 articles of its dev set",
    "sick": "NLI: SICK",
    "snli-small": "NLI: SNLI small (dev set split by premise; test set)",
    "ewt": "SRL: EWT PropBank",
    "litbank": "coref: LitBank",
    "ontogum": "coref: OntoGUM",
    "conll2003": "NER: CoNLL-2003",
    "sst-5": "sentiment: SST-5",
}

FIGURES = {
    "precision": "precision",
    "recall": "recall",
    "predicate_f1": "predicate F1",
    "exact_match": "exact match",
    "muc": "MUC",
    "b_cubed": "B³",
    "ceaf": "CEAF-φ4",
    "mentions": "mention F1",
    "f1_with_singletons": "average F1, gold singletons kept",
}
"""Further metrics of tasks."""


def in_order(study: str, name: str = "") -> list[dict]:
    """The results of a study in the order of the paper's table: the main ones, or those with a name."""
    found = [result for result in read_all(f"tasks/{study}") if result.get("name", "") == name]
    return sorted(found, key=lambda result: list(DATA).index(result["data"]))


def mean(figures: dict) -> str:
    return mean_text(figures["scores"])


def gain(side: dict) -> str:
    return f"{side['increase']:+.2f} | {side['relative_error_reduction']:.1f}% | {p_text(side['p'])}"


def with_and_without() -> list[str]:
    lines = [
        "| data | seeds | metric | baseline | variant | score | increase | error reduction | p "
        "| paper: error reduction |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    results = in_order("compare")
    for result in results:
        for side in result["others"]:
            lines.append(
                f"| {DATA[result['data']]} | {len(result['seeds'])} | {result['metric']} | "
                f"{mean(result['baseline']['test'])} | {side['label']} | {mean(side['test'])} | {gain(side)} | "
                f"{result['paper']['relative']}% |"
            )
    return lines + source(*results)


def gains() -> list[str]:
    """A summary of the comparisons, for the README."""
    lines = ["| | | baseline | + ELMo (`mini`) | relative error reduction |", "|---|---|---|---|---|"]
    results = in_order("compare")
    for result in results:
        side = result["others"][0]
        lines.append(
            f"| {DATA[result['data']]} | {result['metric'].replace('f1', 'F1')} | "
            f"{result['baseline']['test']['mean']:.1f} | {side['test']['mean']:.1f} | "
            f"{side['relative_error_reduction']:.1f}% |"
        )
    return [
        *lines,
        "",
        "Made by `python bench/tasks.py compare DATA --runs RUNS --vectors skipgram.txt` with "
        f"{', '.join(result['data'] for result in results)} for DATA; seeds, deviations and significance: "
        "[docs/tasks.md](docs/tasks.md).",
    ]


def further_figures() -> list[str]:
    """The further metrics of the comparisons that have them."""
    lines = ["| data | seeds | metric | baseline | + ELMo |", "|---|---|---|---|---|"]
    for result in in_order("compare"):
        elmo, base = result["others"][0], result["baseline"]
        lines += [
            f"| {DATA[result['data']]} | {len(result['seeds'])} | {FIGURES[name]} | {mean(base['further'][name])} | "
            f"{mean(figures)} |"
            for name, figures in elmo.get("further", {}).items()
        ]
    return lines


def random_weights() -> list[str]:
    return side_rows(in_order("compare", "random"))


def tuned_bilms() -> list[str]:
    """The scores, and the perplexity of the task's dev text before and after tuning on its training text."""
    lines = [
        "| data | seeds | baseline | + ELMo | error reduction | tuned | error reduction | p | perplexity | tuned |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    results, tunings = in_order("compare", "tuned"), []
    for result in results:
        models = result["setting"]["bilms"].values()
        (tuning,) = (found for found in read_all("fine-tuning") if found["model"] in models)
        (elmo, tuned), base = result["others"], result["baseline"]
        lines.append(
            f"| {DATA[result['data']]} | {len(result['seeds'])} | {mean(base['test'])} | {mean(elmo['test'])} | "
            f"{elmo['relative_error_reduction']:.1f}% | {mean(tuned['test'])} | "
            f"{tuned['relative_error_reduction']:.1f}% | {p_text(tuned['p'])} | "
            f"{tuning['before']['reset']['average']:.1f} | {tuning['after']['reset']['average']:.1f} |"
        )
        tunings.append(tuning)
    return lines + source(*results, *tunings)


def attempts() -> list[str]:
    """Other settings and other biLMs for tasks with a small gain; each group of runs has its own baseline."""
    return side_rows([result for name in ("", "learning", "gently") for result in in_order("attempts", name)])


def grid() -> list[str]:
    """The preset's development score, from the comparisons, and below it those of other settings."""
    lines = ["| data | variant | settings | seeds | dev |", "|---|---|---|---|---|"]
    results, presets = read_all("tasks/grid"), in_order("compare")
    for preset in presets:
        own = [(result, row) for result in results if result["data"] == preset["data"] for row in result["rows"]]
        for side, text, figures in (
            ("baseline", "baseline", preset["baseline"]),
            ("elmo", "+ ELMo", preset["others"][0]),
        ):
            tried = [(result, row) for result, row in own if row["side"] == side]
            if not tried:
                continue
            settings = f"preset: {settings_text(preset_values(preset['task'], [row for _, row in tried]))}"
            seeds, dev = len(preset["seeds"]), mean(figures["dev"])
            lines.append(f"| {DATA[preset['data']]} | {text} | {settings} | {seeds} | {dev} |")
            lines += [
                f"| | | {settings_text(row['changes'])} | {len(result['seeds'])} | {mean(row['dev'])} |"
                for result, row in tried
            ]
    return lines + source(*results)


def preset_values(task: str, rows: list[dict]) -> dict[str, object]:
    """The preset's values of the settings that the rows change."""
    preset = read_task_config(task, "small").model_dump()
    names = dict.fromkeys(name for row in rows for name in row["changes"])
    return {name: reduce(getitem, name.split("."), preset) for name in names}


def settings_text(changes: Mapping[str, object]) -> str:
    """The settings of a variant, except the one that defines the variant."""
    return ", ".join(f"`{name} = {value}`" for name, value in changes.items() if name != "elmo.place")


def side_rows(results: list[dict]) -> list[str]:
    lines = [
        "| data | seeds | variant | dev | test | increase | error reduction | p |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for result in results:
        base, number = result["baseline"], len(result["seeds"])
        scores = f"{mean(base['dev'])} | {mean(base['test'])}"
        lines.append(f"| {DATA[result['data']]} | {number} | baseline | {scores} | | | |")
        for side in result["others"]:
            lines.append(f"| | | {side['label']} | {mean(side['dev'])} | {mean(side['test'])} | {gain(side)} |")
    return lines + source(*results)


def mixing() -> list[str]:
    return side_rows(in_order("mixing"))


def placement() -> list[str]:
    return side_rows(in_order("placement"))


def sample_efficiency() -> list[str]:
    lines = [
        "| data | fraction | examples | baseline | + ELMo | increase | error reduction | p |",
        "|---|---|---|---|---|---|---|---|",
    ]
    results = in_order("sample-efficiency")
    for result in results:
        for point in result["points"]:
            side = point["others"][0]
            lines.append(
                f"| {DATA[result['data']]} | {100 * point['share']:.3g}% | {point['num_examples']:,} | "
                f"{mean(point['baseline']['test'])} | {mean(side['test'])} | {gain(side)} |"
            )
    words = ["", *(f"- {DATA[result['data']]}. {' '.join(result['statements'].values())}" for result in results)]
    return lines + words + source(*results)


def layer_weights() -> list[str]:
    lines = ["| data | place | seeds | layer 0 | layer 1 | layer 2 | γ |", "|---|---|---|---|---|---|---|"]
    results = in_order("layer-weights")
    for result in results:
        for row in result["rows"]:
            shares = zip(row["layer_weights"], row["layer_weights_deviation"], strict=True)
            values = " | ".join(f"{share:.2f} ± {deviation:.2f}" for share, deviation in shares)
            lines.append(
                f"| {DATA[result['data']]} | {row['place']} | {len(row['seeds'])} | {values} | "
                f"{row['gamma']:.2f} ± {row['gamma_deviation']:.2f} |"
            )
    return lines + source(*results)


def learning_curves() -> list[str]:
    lines = ["| data | variant | seeds | best on dev | at epoch | epochs trained |", "|---|---|---|---|---|---|"]
    results = in_order("learning-curves")
    for result in results:
        for group in result["groups"]:
            points = [run["epochs_and_dev"] for run in group["runs"]]
            bests = [max(own, key=lambda point: point[1]) for own in points]
            lasts = [own[-1][0] for own in points]
            lines.append(
                f"| {DATA[result['data']]} | {group['label'].partition(' ')[2].strip('()')} | {len(points)} | "
                f"{mean(summary([score for _, score in bests]))} | {fmean(epoch for epoch, _ in bests):.1f} | "
                f"{fmean(lasts):.1f} |"
            )
    return lines + source(*results)


def epochs() -> list[str]:
    results = read_all("tasks/epochs")
    lines = ["| time per epoch with ELMo ÷ without, cached layers | ratio |", "|---|---|"]
    lines += [f"| {DATA[result['data']]} | {result['ratio']} |" for result in results]
    return lines + source(*results)
