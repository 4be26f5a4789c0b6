"""Write the tables of docs/performance.md from results/*.json: no figure there is typed by hand.

python bench/tables.py            rewrite the tables
python bench/tables.py --check    exit 1 if they are not what the results say
"""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/performance.md"
NAMES = {"pure": "portable steps", "native": "fused cell", "int8": "int8"}


def read(name: str) -> dict:
    return json.loads((ROOT / "results" / f"{name}.json").read_text(encoding="utf-8"))


def source(*results: dict) -> list[str]:
    lines = [f"`{r['command']}` (commit {r['commit']}, torch {r['torch']}, {r['cpu']})" for r in results]
    return ["", *(f"Made by {line}." for line in lines)]


def throughput() -> list[str]:
    full, small = read("embed-full"), read("embed-small")
    lines = [
        "| × AllenNLP | full (4096/512) | of the GEMM roofline | small (1024/128) | of the GEMM roofline |",
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
        f"{full['words']} words; medians of {full['rounds']} (full) and {small['rounds']} (small) interleaved rounds "
        f"on {full['threads']} cores that reach {full['gemm_gflops']} GFLOP/s; AllenNLP does "
        f"{full['rows']['allennlp']['words_per_second']} words/s at full size and "
        f"{small['rows']['allennlp']['words_per_second']} at small size there.",
    ]
    return lines + source(full, small)


def int8() -> list[str]:
    trained = read("embed-int8-trained")
    rows = {f"{size}, random weights": read(f"embed-{size}") for size in ("full", "small")}
    rows["bilm-tf's small test model (64/16), trained"] = trained
    lines = ["| root mean square of the change, relative | layer 0 | layer 1 | layer 2 |", "|---|---|---|---|"]
    for name, result in rows.items():
        values = " | ".join(f"{value:.2%}" for value in result["int8_relative_rms_by_layer"])
        lines.append(f"| {name} | {values} |")
    return lines + source(trained)


def latency() -> list[str]:
    full, small = read("embed-latency-full"), read("embed-latency-small")
    lines = ["| one sentence of 20 tokens | full | small |", "|---|---|---|"]
    for key, text in {"allennlp": "AllenNLP", **NAMES}.items():
        f, s = full["rows"][key], small["rows"][key]
        lines.append(
            f"| {text} | {f['ratio']:.2f} ({f['milliseconds']} ms) | {s['ratio']:.2f} ({s['milliseconds']} ms) |"
        )
    lines += [
        "",
        f"The recurrent weights that a sentence streams are {full['streamed_megabytes']} MB (full) and "
        f"{small['streamed_megabytes']} MB (small), in float32, split over two cores; one core reads "
        f"{full['one_core_gb_per_second']} GB/s from memory.",
    ]
    return lines + source(full, small)


def linear() -> list[str]:
    result = read("embed-linear")
    rows = result["tokens_per_second_relative_to_1k"]
    return [
        f"Tokens/s relative to 1,000 sentences of 20 tokens: 100,000 sentences **{rows['100k']:.2f}**, "
        f"sentences of 200 tokens **{rows['200 tokens']:.2f}**.",
        *source(result),
    ]


def memory() -> list[str]:
    result = read("embed-memory")
    lines = ["| `elmokit embed`, peak MB | 10,000 lines | 1,000,000 lines | growth |", "|---|---|---|---|"]
    for suffix in (suffix for suffix in ("hdf5", "npz", "parquet", "jsonl") if suffix in result):
        row = result[suffix]
        lines.append(f"| .{suffix} | {row['10000']} | {row['1000000']} | {row['growth']} |")
    wide = read("embed-memory-full")
    full = wide["full"]
    lines += [
        "",
        f"The full-size model (weights {full['weights']} MB) peaks at {full['peak']} MB with all layers of prose: "
        f"{full['above']} MB above its weights, Python and torch included.",
    ]
    return lines + source(result, wide)


def main() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name, make in (
        ("throughput", throughput),
        ("int8", int8),
        ("latency", latency),
        ("linear", linear),
        ("memory", memory),
    ):
        block = "\n".join([f"<!-- {name} -->", *make(), f"<!-- end of {name} -->"])
        page, found = re.subn(f"<!-- {name} -->.*?<!-- end of {name} -->", lambda _, b=block: b, page, flags=re.DOTALL)
        assert found == 1, name
    if "--check" in sys.argv:
        sys.exit(page != PAGE.read_text(encoding="utf-8"))
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
