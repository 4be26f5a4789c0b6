"""Tables of docs/paper.md for `bench/tables.py`: the paper's results next to ours.

Our figures come from the other tables, the paper's are constants.
"""

from bench import model_tables, task_tables
from elmokit.tasks.experiments.comparison import PAPER

TASKS = {"QA": "qa", "NLI": "nli", "SRL": "srl", "coref": "coref", "NER": "ner", "sentiment": "sentiment"}


def read_rows(lines: list[str]) -> dict[str, list[str]]:
    """The cells of a Markdown table by the first cell of the row, or by the third if the first is empty."""
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return {row[0] or row[2]: row for row in cells[2:]}


def paper_tasks() -> list[str]:
    lines = [
        "| task | the paper: data | baseline | + ELMo | error reduction | elmokit: data | baseline | + ELMo "
        "| error reduction |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, row in read_rows(task_tables.with_and_without()).items():
        task, data = name.split(": ", 1)
        paper = PAPER[TASKS[task]]
        _, _, _, baseline, _, elmo, _, error, *_ = (cell.split(" ± ")[0] for cell in row)
        lines.append(
            f"| {task} | {paper.data}, {paper.metric} | {paper.baseline} | {paper.elmo} | {paper.relative}% | {data} | "
            f"{baseline} | {elmo} | {error} |"
        )
    return lines


def paper_analyses() -> list[str]:
    """The paper's other tables with numbers."""
    senses = read_rows(model_tables.nearest_senses())
    parts = read_rows(model_tables.parts_of_speech())
    mixing, placement = (read_rows(make()) for make in (task_tables.mixing, task_tables.placement))
    perplexity = read_rows(model_tables.perplexity())["wikipedia-heldout"][3]
    *_, before, after = read_rows(task_tables.tuned_bilms())["NLI: SICK"]
    sets = "Senseval, SemEval"  # all except SemEval-2007, as the paper's first-sense score shows
    rows = [
        ("Perplexity on held-out text", "news", "39.7", "Wikipedia", perplexity),
        ("Perplexity after fine-tuning", "SNLI", "72.1 → 16.8", "SICK", f"{before} → {after}"),
        *(
            (f"Word senses, F1: {name}", sets, figure, sets, senses[name][-1])
            for name, figure in (("first sense", "65.9"), ("layer 1", "67.4"), ("layer 2", "69.0"))
        ),
        *(
            (f"Parts of speech, accuracy: {name}", "WSJ", figure, "UD-EWT", parts[name][1])
            for name, figure in (("layer 1", "97.3"), ("layer 2", "96.8"))
        ),
        *(
            (f"Which layers, development accuracy: {name}", "SNLI", figure, "SICK", mixing[key][3])
            for name, key, figure in (
                ("without ELMo", "NLI: SICK", "88.1"),
                ("last layer", "last layer", "89.1"),
                ("all layers, λ = 1", "all layers, λ = 1", "89.3"),
                ("all layers, λ = 0.001", "all layers, λ = 0.001", "89.5"),
            )
        ),
        *(
            (f"Where, development accuracy: {name}", "SNLI", figure, "SICK", placement[name][3])
            for name, figure in (
                ("at the input", "88.9"),
                ("at the input and the output", "89.5"),
                ("at the output", "88.7"),
            )
        ),
    ]
    lines = ["| | the paper: data | the paper | elmokit: data | elmokit, `mini` |", "|---|---|---|---|---|"]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows)]
