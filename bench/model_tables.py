"""Tables of the packaged model for `bench/tables.py`: how good it is, and what its layers know."""

from bench.results import read, source

MINILM_LAYERS = 7
PASSES = ("pretraining/mini", "pretraining/mini-pass-2")
"""Results after one pass over the corpus and after more."""


def course() -> list[str]:
    result = read("pretraining/mini")
    found, tokens = result["training"]["course"], result["data"]["tokens"]
    counts = (f"{one['predictions'] / 1e6:.1f}M" for one in found)
    return [
        f"| predictions per direction | {' | '.join(counts)} |",
        f"|---|{'---|' * len(found)}",
        f"| perplexity | {' | '.join(format(one['perplexity'], '.1f') for one in found)} |",
        "",
        "Measured on the first part of the held-out Wikipedia, average of both directions. A pass is "
        f"{tokens / 1e6:.1f}M tokens plus one end marker per sentence.",
        *source(result),
    ]


def passes() -> list[str]:
    """The gain of each pass over the corpus."""
    results = [read(name) for name in PASSES]
    lines = [
        "| after | hours | wikipedia-heldout | books-heldout | wikitext-2, mapped | POS | NER | WSD | same sense |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for number, result in enumerate(results, 1):
        texts = " | ".join(f"{found['average']:.1f}" for found in result["perplexity"].values())
        pos, ner, wsd, sense = (row["values"] for row in result["probes"])
        figures = f"{100 * pos['layer 1']:.1f} | {100 * ner['layer 2']:.1f} | {100 * wsd['layer 2']:.1f}"
        lines.append(
            f"| {number} pass{'es' * (number > 1)} | {result['training']['hours']:.1f} | {texts} | {figures} | "
            f"{sense['layer 2']:.3f} |"
        )
    lines += [
        "",
        "Perplexities are averages of both directions with the state carried. Probes are those of "
        "[models.md](models.md): parts of speech with layer 1, the others with layer 2; the last column is an AUC.",
    ]
    return lines + source(*results)


def perplexity() -> list[str]:
    result = read("pretraining/mini")
    lines = [
        "| held-out text | forward | backward | average | state reset: average | unknown words |",
        "|---|---|---|---|---|---|",
    ]
    for name, found in result["perplexity"].items():
        lines.append(
            f"| {name} | {found['forward']:.1f} | {found['backward']:.1f} | {found['average']:.1f} | "
            f"{found['reset']['average']:.1f} | {found['carry']['oov_rate']:.1%} |"
        )
    size = next(iter(result["perplexity"].values()))["carry"]["vocab_size"]
    training = result["training"]
    lines += [
        "",
        f"Full softmax over {size:,} words and the special tokens; an unknown word counts as `<UNK>`. The state is "
        "carried from sentence to sentence, or reset for each sentence. The model was trained on "
        f"{training['tokens_seen'] / 1e6:.1f}M predictions per direction in {training['hours']:.1f} hours on "
        f"{training['hardware']}.",
    ]
    return lines + source(result)


def probes() -> list[str]:
    found, peers, senses, peer, chance, static = (
        read(name)
        for name in ("probes/mini", "probes/peers", "senses/mini", "senses/minilm", "senses/random", "senses/glove")
    )
    rows, f1 = {**peers["rows"], **found["rows"]}, senses["wsd"]["f1"]["ALL"]
    lines = [
        "| frozen vectors | UD-EWT XPOS, accuracy | CoNLL-2003 testb, span F1 | WSD on ALL, nearest sense |",
        "|---|---|---|---|",
    ]
    for way in rows["model"]["pos"]["candidates"]:
        nearest = f1.get(way.removeprefix("layer "))
        cells = [figure(rows, "model", task, way) for task in ("pos", "ner")]
        lines.append(f"| mini, {way} | {' | '.join(cells)} | {'' if nearest is None else f'{nearest:.1f}'} |")
    for name, label, own, number in (
        ("random weights", "as mini, random weights", chance, 3),
        ("glove", "GloVe 100, 20,000 words", static, 1),
        ("minilm", "all-MiniLM-L6-v2", peer, MINILM_LAYERS),
    ):
        cells = [best(rows, name, "pos"), best(rows, name, "ner"), best_sense_layer(own, number)]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    lines += [
        f"| all-MiniLM-L6-v2, concatenated | {figure(rows, 'minilm', 'pos', 'concatenated')} | "
        f"{figure(rows, 'minilm', 'ner', 'concatenated')} | |",
        f"| WordNet's first sense | | | {f1['first sense']:.1f} |",
        "",
        "Means of three seeds, ± standard deviation. In parentheses: the layer chosen on the development set; for word "
        "senses, the layer that is best on these same sets. MiniLM ignores case, which hurts it in NER.",
    ]
    return lines + source(found, peers, senses, peer, chance, static)


def best_sense_layer(found: dict, num_layers: int) -> str:
    """The best layer's score of nearest senses; the layers repeat for each way to combine sub-tokens into words."""
    by_layer = {int(way): score for way, score in found["wsd"]["f1"]["ALL"].items() if way.isdecimal()}
    layer = max(by_layer, key=lambda number: by_layer[number])
    return f"{by_layer[layer]:.1f} (layer {layer % num_layers})"


def figure(rows: dict, name: str, task: str, way: str) -> str:
    found = rows[name][task]["candidates"][way]
    return f"{found['test_mean']:.1f} ± {found['test_deviation']:.1f}"


def best(rows: dict, name: str, task: str) -> str:
    chosen = rows[name][task]["chosen"]
    return f"{figure(rows, name, task, chosen)} ({chosen})"


def speed() -> list[str]:
    found = read("embedding/peers")
    ratios = {name: found["rows"][f"{name} warm"]["ratio"] for name in ("native", "bfloat16")}
    return [
        f"**{ratios['native']} × the words per second of MiniLM's faster way** in float32, {ratios['bfloat16']} × "
        f"in bfloat16, in one interleaved run on {found['threads']} cores "
        f"([table](performance.md#against-a-transformer)), with {found['parameters'] / 1e6:.1f}M parameters instead of "
        f"{found['peer_parameters'] / 1e6:.1f}M. Loading takes {found['load_seconds']:.2f} s once torch is imported.",
        *source(found),
    ]


def contexts() -> list[str]:
    found = read("senses/mini")
    means = found["word_in_context"]["mean_auc"]
    names = [way if way == "mean" else f"layer {way}" for way in means]
    words = ", ".join(f"*{word['form']}*" for word in found["word_in_context"]["words"].values())
    return [
        f"| AUC: same-sense pairs nearer than different-sense pairs | {' | '.join(names)} |",
        f"|---|{'---|' * len(names)}",
        f"| mean of {len(found['word_in_context']['words'])} words | "
        + " | ".join(f"{value:.3f}" for value in means.values())
        + " |",
        "",
        f"Words of SemCor, one form each: {words}.",
        *source(found),
    ]


def parts_of_speech() -> list[str]:
    own, universal = read("probes/mini"), read("probes/mini-upos")
    first, second = own["rows"]["model"]["pos"], universal["rows"]["model"]["upos"]
    lines = ["| accuracy on UD-EWT, test | XPOS | UPOS |", "|---|---|---|"]
    for way in first["candidates"]:
        figures = (f["candidates"][way] for f in (first, second))
        cells = " | ".join(f"{f['test_mean']:.2f} ± {f['test_deviation']:.2f}" for f in figures)
        lines.append(f"| {way} | {cells} |")
    return lines + source(own, universal)


def sense_rows(f1: dict) -> list[str]:
    """One row per method, one column per data set."""
    lines = [f"| F1 | {' | '.join(f1)} |", f"|---|{'---|' * len(f1)}"]
    for way in f1["ALL"]:
        label = f"layer {way}" if way.isdecimal() else way
        lines.append(f"| {label} | {' | '.join(f'{scores[way]:.1f}' for scores in f1.values())} |")
    return lines


def nearest_senses() -> list[str]:
    found = read("senses/mini")
    off = sum(found["wsd"]["backed_off"].values())
    return [
        *sense_rows(found["wsd"]["f1"]),
        "",
        f"{off:,} of {found['wsd']['instances']['ALL']:,} instances have lemmas that are not in SemCor.",
        *source(found),
    ]


def votes() -> list[str]:
    found = read("senses/mini")
    return sense_rows(found["votes"]["f1"]) + source(found)


def groups() -> list[str]:
    found = read("usage/induction")
    lines = [
        "| method, number of groups | V-measure | B³ | adjusted Rand | groups per word |",
        "|---|---|---|---|---|",
    ]
    for name, row in found["rows"].items():
        if name.startswith(("context, layer", "word, layer")) and "layer 2" not in name:
            continue
        own = row["report"]
        figures = (f"{own[key]:.1f}" for key in ("v_measure", "b_cubed", "adjusted_rand"))
        lines.append(f"| {name} | {' | '.join(figures)} | {own['groups']:.2f} |")
    one, shift = found["one_sense"], found["shift_auc"]
    lines += [
        "",
        f"{len(found['words']) // 2} words that were not used to choose anything. Of {len(one['words'])} words with "
        f"one sense in SemCor, {one['share_of_one_group']:.0%} got a single group. Artificial shifts of "
        f"{shift['words']} words are distinguished from no shift with an AUC of {shift['shift']:.2f}.",
    ]
    return lines + source(found)


def index() -> list[str]:
    found = read("usage/neighbors")
    lines = [f"| an index of {found['tokens']:,} tokens | ratio | measured |", "|---|---|---|"]
    for name, row in found["rows"].items():
        value = f"{row['tokens_per_second']:,} tokens/s" if "tokens_per_second" in row else f"{row['milliseconds']} ms"
        lines.append(f"| {name} | {row['ratio']} | {value} |")
    lines += [
        "",
        f"{found['index_bytes_a_token']:,} bytes per token; the word is *{found['word']}*, which occurs "
        f"{found['occurrences']:,} times.",
    ]
    return lines + source(found)


def around(sentence: str, word: str, *, side: int = 34) -> str:
    """The context of the first occurrence of a word, which is set in italics."""
    tokens = sentence.split()
    place = next(number for number, token in enumerate(tokens) if token.lower() == word)
    left, right = " ".join(tokens[:place]), " ".join(tokens[place + 1 :])
    left = left if len(left) <= side else "… " + left[-side:].partition(" ")[2]
    right = right if len(right) <= side else right[:side].rpartition(" ")[0] + " …"
    return f"{left} *{tokens[place]}* {right}".strip().replace("|", "\\|")


def shifts() -> list[str]:
    found = read("usage/shifts")
    first, second = (name.partition("-")[0].capitalize() for name in found["corpora"])
    lines = [f"| word | {first} | {second} | shift | in {first} | in {second} |", "|---|---|---|---|---|---|"]
    for row in found["words"]:
        one, two = (around(sentence, row["word"]) for sentence in row["examples"])
        lines.append(
            f"| {row['word']} | {row['counts'][0]:,} | {row['counts'][1]:,} | {row['shift']:.2f} | {one} | {two} |"
        )
    lines += [
        "",
        f"The words are from {found['num_words']:,} words that are frequent in both corpora. Their median shift is "
        f"{found['median_shift']:.2f}, which is due to the corpora and not to the words. The example of each word is "
        "the use that is farthest from the other corpus.",
    ]
    return lines + source(found)
