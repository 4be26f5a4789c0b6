"""Write the model card of a packaged model: prose from cards/NAME.md, every figure from the model or a JSON file.

    python tools/model_card.py MODEL RESULTS.json CARD.md

MODEL is the model that `elmokit convert --float16` wrote. RESULTS.json contains:

    name, version    "mini", "1"
    fingerprint      of the model that was measured; it must be MODEL's
    data             wikipedia_words, wikipedia_articles, book_words, books, tokens: what it was trained on
    training         preset, tokens_seen, hours, hardware, elmokit, command
    perplexity       {text: {forward, backward, average, unknown}}: full softmax on held-out text, unknown words
    probes           [{name, dataset, metric, values: {label: number}}]: small classifiers on frozen layers

Other keys are ignored. A figure that is missing or not a number causes a one-sentence error.
"""

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import Any

import yaml

from elmokit.errors import ConfigError, ElmokitError
from elmokit.filesystem import write_text_atomic
from elmokit.formats import ModelInfo, describe

CARDS = Path(__file__).parent / "cards"
PERPLEXITIES = ("forward", "backward", "average")


class Results:
    """Results in JSON, read by path of keys; a missing key causes an error that names its path."""

    def __init__(self, values: Any, origin: str, prefix: str = "") -> None:
        self._values, self._origin, self._prefix = values, origin, prefix

    def value(self, *keys: str) -> Any:
        """The value at a path of keys such as "training", "hours"."""
        found = self._values
        for key in keys:
            if not isinstance(found, dict) or key not in found:
                raise self._error(keys, "is missing")
            found = found[key]
        return found

    def text(self, *keys: str) -> str:
        """A text that is not blank."""
        if not isinstance(found := self.value(*keys), str) or not found.strip():
            raise self._error(keys, f"is {found!r}, not a text")
        return found

    def number(self, *keys: str) -> float:
        """A finite number."""
        found = self.value(*keys)
        if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
            raise self._error(keys, f"is {found!r}, not a number")
        return found

    def entries(self, *keys: str) -> list[tuple[str, "Results"]]:
        """The members of a list or table that is not empty, each with its name or index."""
        found = self.value(*keys)
        if not isinstance(found, dict | list) or not found:
            raise self._error(keys, "is empty")
        members = found.items() if isinstance(found, dict) else enumerate(found)
        place = self._place(keys)
        return [(str(name), Results(value, self._origin, f"{place}.{name}.")) for name, value in members]

    def _place(self, keys: Sequence[str]) -> str:
        return self._prefix + ".".join(keys)

    def _error(self, keys: Sequence[str], what: str) -> ConfigError:
        return ConfigError(
            f"{self._place(keys)} {what} in {self._origin}: measure it and add it, see tools/model_card.py."
        )


def write_card(model: str | Path, results_path: Path, output: Path) -> None:
    """Fill the card's prose with the figures of the model and its results."""
    try:
        values = json.loads(results_path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{results_path} cannot be read as JSON ({error}): give the results of the model.") from None
    results = Results(values, str(results_path))
    name, found = results.text("name"), describe(model)
    if results.text("fingerprint") != found.fingerprint:
        raise ConfigError(
            f"{results_path} was measured on the model {results.text('fingerprint')}, but {model} is "
            f"{found.fingerprint}: measure the model that will ship."
        )
    if not found.softmax:
        raise ConfigError(f"{model} has no softmax, so it cannot be packaged: give the model with its softmax.")
    template = CARDS / f"{name}.md"
    if not template.exists():
        raise ConfigError(f"there is no card for a model named {name!r}: write {template.name} in tools/cards first.")
    body = Template(template.read_text(encoding="utf-8")).substitute(_fields(found, results))
    header = yaml.safe_dump(_metadata(name, found, results), sort_keys=False, allow_unicode=True, width=120)
    write_text_atomic(output, f"---\n{header}---\n\n{body}")


def _fields(found: ModelInfo, results: Results) -> dict[str, str]:
    stack = found.config.lstm
    return {
        "version": results.text("version"),
        "fingerprint": found.fingerprint,
        "parameters": f"{found.num_parameters / 1e6:.1f}M",
        "vocab_size": f"{found.vocab_size or 0:,}",
        "num_layers": str(found.num_layers),
        "output_dim": str(found.output_dim),
        "num_lstm_layers": str(stack.num_layers),
        "cell_dim": str(stack.cell_dim),
        "projection_dim": str(stack.output_dim),
        "wikipedia_words": _millions(results.number("data", "wikipedia_words")),
        "wikipedia_articles": f"{results.number('data', 'wikipedia_articles'):,}",
        "book_words": _millions(results.number("data", "book_words")),
        "books": f"{results.number('data', 'books'):,}",
        "tokens": _millions(results.number("data", "tokens")),
        "tokens_seen": _millions(results.number("training", "tokens_seen")),
        "hours": f"{results.number('training', 'hours'):.1f}",
        "preset": results.text("training", "preset"),
        "hardware": results.text("training", "hardware"),
        "elmokit": results.text("training", "elmokit"),
        "command": results.text("training", "command"),
        "perplexity_table": _perplexity_table(results),
        "probe_tables": _probe_tables(results),
    }


def _millions(number: float) -> str:
    return f"{number / 1e6:.1f}M"


def _perplexity_table(results: Results) -> str:
    rows = ["| held-out text | forward | backward | average | unknown words |", "|---|---|---|---|---|"]
    for text, figures in results.entries("perplexity"):
        sides = " | ".join(f"{figures.number(side):.1f}" for side in PERPLEXITIES)
        rows.append(f"| {text} | {sides} | {figures.number('unknown'):.1%} |")
    return "\n".join(rows)


def _probe_tables(results: Results) -> str:
    rows = ["| probe | data | metric | input | result |", "|---|---|---|---|---|"]
    for _, probe in results.entries("probes"):
        start = " | ".join(probe.text(key) for key in ("name", "dataset", "metric"))
        rows += [f"| {start} | {label} | {number:.3f} |" for label, number in _probe_values(probe)]
    return "\n".join(rows)


def _probe_values(probe: Results) -> list[tuple[str, float]]:
    return [(label, probe.number("values", label)) for label, _ in probe.entries("values")]


def _metadata(name: str, found: ModelInfo, results: Results) -> dict[str, Any]:
    """The header in the Hub's terms; the training texts are not datasets of the Hub, so their names are plain."""
    evaluations = [
        _evaluation(
            "text-generation", "language modeling", text, "perplexity", [("average", figures.number("average"))]
        )
        for text, figures in results.entries("perplexity")
    ]
    for _, probe in results.entries("probes"):
        dataset, metric = probe.text("dataset"), probe.text("metric")
        evaluations.append(
            _evaluation("token-classification", probe.text("name"), dataset, metric, _probe_values(probe))
        )
    return {
        "language": list(found.languages),
        "license": "apache-2.0",
        "library_name": "elmokit",
        "pipeline_tag": "feature-extraction",
        "tags": ["elmo", "bilm", "contextual-embeddings", "language-model"],
        "datasets": ["english-wikipedia-2014", "english-books-1895"],
        "model-index": [{"name": f"elmokit-{name}", "results": evaluations}],
    }


def _evaluation(
    task: str, task_name: str, dataset: str, metric: str, values: list[tuple[str, float]]
) -> dict[str, Any]:
    plain = "-".join("".join(letter if letter.isalnum() else " " for letter in dataset.lower()).split())
    return {
        "task": {"type": task, "name": task_name},
        "dataset": {"type": plain, "name": dataset},
        "metrics": [{"type": metric, "value": number, "name": f"{metric}, {label}"} for label, number in values],
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; a foreseen failure is one sentence and exit code 1."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if len(words) != 3:
        print("usage: python tools/model_card.py MODEL RESULTS.json CARD.md", file=sys.stderr)
        sys.exit(2)
    try:
        write_card(words[0], Path(words[1]), Path(words[2]))
    except (ElmokitError, OSError) as error:
        sys.exit(f"model_card: {error}")


if __name__ == "__main__":
    main()
