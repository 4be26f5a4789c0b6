"""Files of a few lines for every task, texts to predict for, and models trained on the files in a moment."""

import json
from pathlib import Path

from elmokit.cli.main import app

NER = "Ada\tB-PER\nsaw\tO\nParis\tB-LOC\n.\tO\n\nBob\tB-PER\nleft\tO\n.\tO\n"
TAGS = "Ada PROPN\nsaw VERB\nParis PROPN\n. PUNCT\n\nBob PROPN\nleft VERB\n. PUNCT\n"
TREES = "(3 (2 It) (3 (3 works) (2 .)))\n(1 (2 It) (1 (1 fails) (2 .)))\n"
PAIRS = [("A dog runs .", "An animal moves .", "entailment"), ("A dog runs .", "It sleeps .", "contradiction")]
NLI = "".join(json.dumps({"sentence1": a, "sentence2": b, "gold_label": label}) + "\n" for a, b, label in PAIRS)
CONTEXT = "Ada was born in London. She wrote to Charles."
QUESTIONS = [("Where was Ada born?", "London"), ("To whom did she write?", "Charles")]
QA = json.dumps({
    "version": "1.1",
    "data": [{"title": "Ada", "paragraphs": [{"context": CONTEXT, "qas": [
        {"id": str(number), "question": question, "answers": [{"text": text, "answer_start": CONTEXT.index(text)}]}
        for number, (question, text) in enumerate(QUESTIONS)
    ]}]}],
})  # fmt: skip
SRL = "".join(
    f"doc\t0\t{number}\t{word}\tX\t*\t{lemma}\t{sense}\t{role}\n"
    for number, (word, lemma, sense, role) in enumerate(
        [
            ("Ada", "-", "-", "(ARG0*)"),
            ("saw", "see", "see.01", "(V*)"),
            ("Bob", "-", "-", "(ARG1*)"),
            (".", "-", "-", "*"),
        ]
    )
)
COREF = "#begin document (d); part 000\n" + "".join(
    f"d 0 {number} {word} X * - - - - * {mention}\n" + ("\n" if word == "." else "")
    for number, (word, mention) in enumerate(
        [("Ada", "(1)"), ("slept", "-"), (".", "-"), ("She", "(1)"), ("woke", "-"), (".", "-")]
    )
) + "#end document\n"  # fmt: skip
FILES = {
    "ner": ("data.conll", NER),
    "sentiment": ("trees.txt", TREES),
    "nli": ("pairs.jsonl", NLI),
    "qa": ("squad.json", QA),
    "srl": ("roles.gold_conll", SRL),
    "coref": ("story.v4_gold_conll", COREF),
    "tag": ("words.columns", TAGS),
}
SIZES = ["--set", "elmo.place=none", "--set", "num_epochs=1", "--set", "words.width=4", "--set", "words.min_count=1"]
RAW = {
    "ner": ["Ada saw Paris."],
    "sentiment": ["It works."],
    "nli": ["A dog runs .", "It sleeps ."],
    "qa": [CONTEXT, "Where was Ada born?"],
    "srl": ["Ada saw Bob."],
    "coref": ["Ada slept. She woke."],
    "tag": ["Ada saw Paris."],
}
TASKS = list(FILES)


def train_small(folder: Path, name: str, *words: str) -> Path:
    """The folder of a task model that was trained for an epoch; `words` are further options."""
    file, text = FILES[name]
    path = folder / file
    path.write_text(text, encoding="utf-8")
    command = ["task", "train", name, "--train", str(path), "--dev", str(path), "--output", str(folder / name)]
    app([*command, *SIZES, *words, "--threads", "1"], standalone_mode=False)
    return folder / name / "model"
