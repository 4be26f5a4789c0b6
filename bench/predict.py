"""The speed of prediction with trained task models, compared with that of their biLM alone.

    python bench/predict.py RUN...         texts per second, CPU time per token, seconds to the first prediction

RUN is the folder of a run of `elmokit task train` with a frozen biLM. Texts are sentences of a test set, or of
tests/fixtures/prose.txt for tasks that read any text. Both candidates get the same tokens, in turns, with one thread.
"""

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from bench import results
from bench.embed import read_sentences
from bench.machine import interleave
from bench.provenance import provenance
from elmokit.tasks.pipeline import TaskPipeline
from elmokit.tasks.saved import load_task

_FIRST = """
import time, torch
begin = time.perf_counter()
import elmokit
elmokit.load_task({run!r}, threads=1).predict([{input!r}])
print(time.perf_counter() - begin)
"""


def make_inputs(pipeline: TaskPipeline, number: int) -> list[dict[str, Any]]:
    """Inputs of tokens: sentences for most tasks, ten of them for a context or a document."""
    sentences = read_sentences(12_500)
    fields = pipeline.task.fields
    long = {"context", "document"}
    found = []
    for place in range(number):
        first = place * 10 % (len(sentences) - 10)
        whole = [list(sentence) for sentence in sentences[first : first + 10]]
        found.append({name: whole if name in long else whole[index] for index, name in enumerate(fields)})
    return found


def tokens_of(inputs: list[dict[str, Any]], pipeline: TaskPipeline) -> list[list[str]]:
    """The sentences that the biLM reads for inputs."""
    return [
        sentence
        for item in inputs
        for text in item.values()
        for sentence in (text if isinstance(text[0], list) else [text])
    ]


def measure(run: str, number: int, rounds: int) -> dict[str, Any]:
    pipeline = load_task(run, threads=1)
    assert pipeline.embedder is not None, f"{run} has no frozen biLM"
    embedder = pipeline.embedder
    inputs = make_inputs(pipeline, number if len(pipeline.task.fields) == 1 else number // 2)
    inputs = inputs[: len(inputs) // 10] if pipeline.task.whole_files else inputs
    sentences = tokens_of(inputs, pipeline)
    num_tokens = sum(map(len, sentences))
    spent: dict[str, list[float]] = {"biLM": [], "task": []}

    def timed(name: str, work: Callable[[], object]) -> Callable[[], None]:
        def call() -> None:
            begin = time.process_time()
            work()
            spent[name].append(time.process_time() - begin)

        return call

    candidates = {
        "biLM": timed("biLM", lambda: embedder.embed(sentences, dtype="float16")),
        "task": timed("task", lambda: pipeline.predict(inputs)),
    }
    for candidate in candidates.values():
        candidate()  # fills the cache of words
    for values in spent.values():
        values.clear()
    timings = interleave(candidates, rounds)
    cpu = {name: statistics.median(values) / num_tokens for name, values in spent.items()}
    return {
        "task": pipeline.task.name,
        "inputs": len(inputs),
        "tokens": num_tokens,
        "inputs_per_second": round(len(inputs) / timings["task"].median, 1),
        "tokens_per_second": round(num_tokens / timings["task"].median),
        "cpu_microseconds_per_token": round(1e6 * cpu["task"], 1),
        "cpu_microseconds_per_token_of_the_bilm": round(1e6 * cpu["biLM"], 1),
        "times_the_bilm": round(cpu["task"] / cpu["biLM"], 2),
        "disturbed_rounds": sum(timing.disturbed for timing in timings.values()),
        "seconds_to_the_first_prediction": first_prediction(run, inputs[0]),
    }


def first_prediction(run: str, item: dict[str, Any]) -> float:
    """Seconds from the end of torch's import to the first record, in a new process; the best of three."""
    script = _FIRST.format(run=run, input=item)
    seconds = [
        float(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout)
        for _ in range(3)
    ]
    return round(min(seconds), 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--number", type=int, default=400, help="inputs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    origin = provenance("predict.py") if arguments.json else {}
    rows = [measure(run, arguments.number, arguments.rounds) for run in arguments.runs]
    for row in rows:
        print(row)
    if arguments.json:
        results.write(arguments.json, {**origin, "rows": rows})


if __name__ == "__main__":
    main()
