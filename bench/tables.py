"""Write the tables of the documentation from results/: no figure there is typed by hand.

python bench/tables.py            rewrite the tables
python bench/tables.py --check    exit 1 if they do not match the results
"""

import re
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import model_tables, paper_tables, result_table, task_tables
from bench.places import ROOT
from bench.results import read, read_all, source

NAMES = {"pure": "portable path", "native": "native library", "bfloat16": "bfloat16", "int8": "int8"}


def throughput() -> list[str]:
    full, small = read("embedding/throughput-full"), read("embedding/throughput-small")
    lines = [
        "| × AllenNLP | full (4096/512) | % of GEMM roofline | small (1024/128) | % of GEMM roofline |",
        "|---|---|---|---|---|",
        *(
            f"| {label} | {f['ratio']} × | {f['of_gemm_roofline']:.0%} | {s['ratio']} × | {s['of_gemm_roofline']:.0%} |"
            for label, f, s in (
                ("AllenNLP", full["rows"]["allennlp"], small["rows"]["allennlp"]),
                *(
                    (f"{text}, {heat}", full["rows"][f"{key} {heat}"], small["rows"][f"{key} {heat}"])
                    for key, text in NAMES.items()
                    for heat in ("warm", "cold")
                ),
            )
        ),
        "",
        f"{full['words']} (full) and {small['words']} (small) words; medians of "
        f"{full['rounds']} (full) and {small['rounds']} (small) interleaved rounds "
        f"on {full['threads']} cores that reach {full['gemm_gflops']} GFLOP/s. There AllenNLP processes "
        f"{full['rows']['allennlp']['words_per_second']} words/s at full size and "
        f"{small['rows']['allennlp']['words_per_second']} at small size.",
    ]
    return lines + source(full, small)


def int8() -> list[str]:
    trained, mini = (read(f"embedding/int8-{name}") for name in ("trained", "mini"))
    rows = {f"{size}, random weights": read(f"embedding/throughput-{size}") for size in ("full", "small")}
    rows["bilm-tf's small test model (64/16), trained"] = trained
    rows["mini (512/128), trained"] = mini
    lines = ["| relative root mean square change | layer 0 | layer 1 | layer 2 |", "|---|---|---|---|"]
    for name, result in rows.items():
        values = " | ".join(f"{value:.2%}" for value in result["int8_relative_rms_by_layer"])
        lines.append(f"| {name} | {values} |")
    rounded = read("embedding/bfloat16-mini")
    values = " | ".join(f"{value:.2%}" for value in rounded["bfloat16_relative_rms_by_layer"])
    lines.append(f"| mini, bfloat16 instead of int8 | {values} |")
    return lines + source(trained, mini, rounded)


def kernels() -> list[str]:
    result = read("embedding/kernels")
    lines = ["| kind | bare loop, 10⁹ operations/s | product | steps | one row, GB/s |", "|---|---|---|---|---|"]
    for kind, row in result["kinds"].items():
        lines.append(
            f"| {kind} | {row['peak_gop_per_second']} | {row['product_share']:.0%} | {row['steps_share']:.0%} | "
            f"{row['one_row_gb_per_second']} |"
        )
    lines += ["", f"One core reads {result['one_core_gb_per_second']} GB/s from memory."]
    return lines + source(result)


def latency() -> list[str]:
    full, small = read("embedding/latency-full"), read("embedding/latency-small")
    lines = ["| one sentence of 20 tokens | full | small |", "|---|---|---|"]
    for key, text in {"allennlp": "AllenNLP", **NAMES}.items():
        f, s = full["rows"][key], small["rows"][key]
        lines.append(
            f"| {text} | {f['ratio']:.2f} ({f['milliseconds']} ms) | {s['ratio']:.2f} ({s['milliseconds']} ms) |"
        )
    lines += [
        "",
        f"The recurrent weights that are read for each sentence are {full['streamed_megabytes']} MB (full) and "
        f"{small['streamed_megabytes']} MB (small), in float32, split over two cores; one core reads "
        f"{full['one_core_gb_per_second']} GB/s from memory.",
    ]
    return lines + source(full, small)


def peers() -> list[str]:
    result = read("embedding/peers")
    rows, precisions = result["rows"], ("float32", "bfloat16", "int8")
    errors = {name.removeprefix("minilm, "): error for name, error in result["minilm_relative_rms"].items()}
    ways = {
        f"mini, {heat}": {name: f"{'native' if name == 'float32' else name} {heat}" for name in precisions}
        for heat in ("warm", "cold")
    }
    ways |= {f"mini, {heat}, portable path": {"float32": f"pure {heat}"} for heat in ("warm", "cold")}
    for library in ("sentence-transformers", "onnxruntime"):
        ways[f"all-MiniLM-L6-v2, {library}"] = {name: f"minilm, {library}, {name}" for name in precisions}
    lines = [f"| words/s of token vectors | {' | '.join(precisions)} |", "|---|---|---|---|"]
    for label, names in ways.items():
        found = (rows.get(names.get(name, "")) for name in precisions)
        cells = (f"{row['words_per_second']:,} ({row['ratio']} ×)" if row else "–" for row in found)
        lines.append(f"| {label} | {' | '.join(cells)} |")
    lines += [
        "",
        f"{result['words']} words; medians of {result['rounds']} interleaved rounds on {result['threads']} cores; in "
        "parentheses relative to MiniLM's faster way in float32. onnxruntime's float32 vectors equal those of "
        f"transformers to {errors['onnxruntime, float32']:.0e} (relative root mean square), its int8 vectors to "
        f"{errors['onnxruntime, int8']:.0%}.",
    ]
    return lines + source(result)


def linear() -> list[str]:
    result = read("embedding/linear")
    rows = result["tokens_per_second_relative_to_1k"]
    return [
        f"Tokens/s relative to 1,000 sentences of 20 tokens: 100,000 sentences **{rows['100k']:.2f}**, "
        f"sentences of 200 tokens **{rows['200 tokens']:.2f}**.",
        *source(result),
    ]


def command() -> list[str]:
    every, top = read("embedding/command-all"), read("embedding/command-top")
    lines = ["| the whole `elmokit embed`, × `embed_stream` | all layers | top layer |", "|---|---|---|"]
    for name in ("parquet", "hdf5", "npz", "jsonl"):
        lines.append(f"| .{name} | {every['rows'][name]['ratio']:.2f} | {top['rows'][name]['ratio']:.2f} |")
    began = read("embedding/start")
    rows = began["rows"]
    lines += [
        "",
        f"{every['paragraphs']:,} paragraphs ({every['tokens']:,} tokens), `mini`, float16; medians of "
        f"{every['rounds']} interleaved rounds. `embed_stream` took {every['rows']['embed_stream']['seconds']} s (all "
        f"layers) and {top['rows']['embed_stream']['seconds']} s (top).",
        "",
        f'A cold start takes {rows["one sentence in Python"]["ratio"]:.2f} × the time of `python -c "import torch"` '
        f"({rows['import torch']['seconds']} s) for one sentence in Python, and "
        f"{rows['elmokit embed of one line']['ratio']:.2f} × for `elmokit embed` of one line.",
    ]
    return lines + source(every, top, began)


def memory() -> list[str]:
    result = read("embedding/memory")
    lines = ["| `elmokit embed`, peak MB | 10,000 lines | 1,000,000 lines | growth |", "|---|---|---|---|"]
    for suffix in (suffix for suffix in ("hdf5", "npz", "parquet", "jsonl") if suffix in result):
        row = result[suffix]
        lines.append(f"| .{suffix} | {row['10000']} | {row['1000000']} | {row['growth']} |")
    wide = read("embedding/memory-full")
    full = wide["full"]
    lines += [
        "",
        f"The full-size model (weights {full['weights']} MB) peaks at {full['peak']} MB with all layers of prose: "
        f"{full['above']} MB above its weights, Python and torch included.",
    ]
    return lines + source(result, wide)


def training() -> list[str]:
    lines = [
        "| one step of 128 × 20 tokens, both directions | negatives | × straightforward | tokens/s |",
        "|---|---|---|---|",
    ]
    results = [read(f"training/{name}") for name in ("small", "mini", "mini-8192")]
    for name, result in zip(
        ("small (1024/128, 2048 filters)", *2 * ("mini (512/128, 496 filters)",)), results, strict=True
    ):
        speed = result["tokens_per_second"]
        lines.append(f"| {name} | {result['negatives']} | {result['ratio']} × | {speed['elmokit']:,} |")
        if rounded := result.get("bfloat16"):
            own = speed["elmokit, bfloat16"]
            lines.append(f"| the same, bfloat16 | {result['negatives']} | {rounded['ratio']} × | {own:,} |")
    first = results[0]
    worst = max(result["largest_relative_difference_of_losses"] for result in results)
    lines += [
        "",
        f"Medians of interleaved rounds on {first['threads']} cores; the losses of both agree within {worst:.0e}. "
        f"A window of this prose has {first['distinct_tokens_a_window']} distinct tokens.",
    ]
    if differences := [result["bfloat16"]["difference"] for result in results if "bfloat16" in result]:
        lines[-1] += f" With bfloat16 they differ by at most {max(differences):.0e}."
    return lines + source(*results)


def training_commits() -> list[str]:
    results = [read(f"training/{name}-commits") for name in ("mini", "base")]
    lines = [
        "| tokens/s, the optimizer included | 512/128 (`mini`) | 1024/256 (`base`) |",
        "|---|---|---|",
        f"| bfloat16 at commit {results[0]['older_commit']}, by torch's autocast | "
        + " | ".join(f"{result['tokens_per_second']['before']:,}" for result in results)
        + " |",
    ]
    for name, key in (("bfloat16", "now"), ("float32", "now in float32")):
        cells = [f"{result['tokens_per_second'][key]:,} ({result['ratio'][key]} ×)" for result in results]
        lines.append(f"| {name} by the native library | {' | '.join(cells)} |")
    return lines + source(*results)


def processes() -> list[str]:
    result = read("training/processes")
    return [
        f"Two processes on two cores compute a step of the same global batch **{result['ratio']} ×** as fast as one "
        "process on one core.",
        *source(result),
    ]


def training_memory() -> list[str]:
    result = read("training/memory")
    return [
        f"While it streams {result['corpus_gigabytes']} GB of shards (the shards of a corpus repeated), the process "
        f"uses {result['above_model_megabytes']} MB more than its model. Between a tenth and the whole of the measured "
        f"{result['read_gigabytes']} GB it grew by {result['growth_megabytes']} MB.",
        *source(result),
    ]


def original() -> list[str]:
    result = read("training/original")
    words = 768_648_884
    days = 10 * words / result["tokens_per_second"] / 86400
    return [
        f"Measured with one process on {result['threads']} cores at the paper's batch (128 × 20), 793,471 words and "
        f"8,192 negatives: {result['num_parameters'] / 1e6:.0f}M parameters with the softmax, "
        f"**{result['peak_gigabytes']} GB** peak per process (weights, Adagrad's sums, activations), "
        f"**{result['exchanged_megabytes_a_step']} MB** of gradients exchanged per step (only the softmax rows "
        f"that it used), {result['tokens_per_second']:.0f} tokens/s. The paper's ten passes over {words / 1e6:.0f}M "
        f"words would take {days:,.0f} days on these cores. With more processes it takes proportionally less time, as "
        "long as the network completes the exchange within a step.",
        *source(result),
    ]


def language_models() -> list[str]:
    lines = [
        "| | state carried: forward | backward | average | state reset: average | vocabulary | unknown | hours |",
        "|---|---|---|---|---|---|---|---|",
    ]
    results = [read(f"pretraining/{name}") for name in ("ptb", "wikitext-2")]
    for result in results:
        for split in ("valid", "test"):
            carry, reset = result[split]["carry"], result[split]["reset"]
            lines.append(
                f"| {result['name']}, {split} | {carry['forward']['perplexity']:.1f} | "
                f"{carry['backward']['perplexity']:.1f} | {carry['average']:.1f} | {reset['average']:.1f} | "
                f"{carry['vocab_size']:,} | {carry['oov_rate']:.1%} | {result['hours']} |"
            )
    return lines + source(*results)


def finetuning() -> list[str]:
    lines = ["| fine-tuned on | before | after | known words: before | after |", "|---|---|---|---|---|"]
    results = read_all("fine-tuning")
    for result in results:
        before, after = result["before"]["reset"], result["after"]["reset"]
        lines.append(
            f"| {result['name']} | {before['average']:.1f} | {after['average']:.1f} | {before['average_known']:.1f} | "
            f"{after['average_known']:.1f} |"
        )
    return lines + source(*results)


def settings() -> list[str]:
    result = read("pretraining/settings")
    lines = [
        "| preset `mini`, 64 × 20, with | parameters | CPU s | predictions | perplexity | POS, layer 1 | layer 2 "
        "| mean | concatenated |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in result["rows"]:
        pos = row["pos"]
        lines.append(
            f"| {row['name']} | {row['num_parameters'] / 1e6:.1f}M | {row['cpu_seconds']:.0f} | "
            f"{row['predictions']:,} | {row['perplexity']:.0f} | {pos['layer 1']} | {pos['layer 2']} | {pos['mean']} | "
            f"{pos['concatenated']} |"
        )
    lines += [
        "",
        f"Perplexity: average of both directions over {result['predictions']:,} predictions of `{result['heldout']}`, "
        f"among the {result['common_words']:,} most frequent words; the other {result['oov_rate']:.1%} are left out. "
        "POS: XPOS accuracy on UD-EWT's development set with a linear probe trained on 6,000 sentences. One seed.",
    ]
    return lines + source(result)


PAGES = {
    "bench/README.md": (result_table.results,),
    "README.md": (task_tables.gains,),
    "docs/paper.md": (paper_tables.paper_tasks, paper_tables.paper_analyses),
    "docs/performance.md": (
        throughput,
        kernels,
        latency,
        peers,
        int8,
        linear,
        command,
        memory,
        training,
        training_commits,
        processes,
        training_memory,
    ),
    "docs/pretraining.md": (original, settings, model_tables.course, model_tables.passes, finetuning, language_models),
    "docs/models.md": (model_tables.perplexity, model_tables.probes, model_tables.speed, model_tables.contexts),
    "docs/tasks.md": (
        task_tables.with_and_without,
        task_tables.further_figures,
        task_tables.random_weights,
        task_tables.tuned_bilms,
        task_tables.attempts,
        task_tables.grid,
        task_tables.learning_curves,
        task_tables.epochs,
    ),
    "docs/analysis.md": (
        model_tables.parts_of_speech,
        model_tables.nearest_senses,
        model_tables.votes,
        model_tables.groups,
        model_tables.shifts,
        model_tables.index,
        task_tables.sample_efficiency,
        task_tables.mixing,
        task_tables.placement,
        task_tables.layer_weights,
    ),
}


def _give(block: str, _: re.Match[str]) -> str:
    return block


def main() -> None:
    outdated = False
    for name, makers in PAGES.items():
        path = ROOT / name
        page = before = path.read_text(encoding="utf-8")
        for make in makers:
            title = make.__name__.replace("_", "-")
            block = "\n".join([f"<!-- {title} -->", *make(), f"<!-- end of {title} -->"])
            page, found = re.subn(
                f"<!-- {title} -->.*?<!-- end of {title} -->", partial(_give, block), page, flags=re.DOTALL
            )
            assert found == 1, title
        outdated |= page != before
        if "--check" not in sys.argv:
            path.write_text(page, encoding="utf-8")
    sys.exit(outdated and "--check" in sys.argv)


if __name__ == "__main__":
    main()
