"""Train the static word vectors of the tasks' baseline: skip-gram on the training text of the packaged model.

    pip install gensim
    python bench/skipgram.py 'SHARDS/*.xz' vectors.txt --json results/tasks/skipgram.json

The vectors are written as word2vec text, which `elmokit task … --vectors` reads. One thread, so that the vectors can be
reproduced from the seed.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import gensim
from gensim.models import Word2Vec

from elmokit.text.files import find_files, open_text

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.provenance import provenance
from bench.results import write

SETTINGS = {"vector_size": 100, "window": 5, "min_count": 5, "sg": 1, "negative": 5, "sample": 1e-3, "epochs": 2}


class Sentences:
    """Tokenized sentences of shards; can be iterated repeatedly."""

    def __init__(self, files: list[Path]) -> None:
        self.files = files

    def __iter__(self) -> Iterator[list[str]]:
        for path in self.files:
            with open_text(path) as lines:
                for line in lines:
                    tokens = line.split()
                    if tokens:
                        yield tokens


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", help="glob of shards written by elmokit corpus shard")
    parser.add_argument("output", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    origin = provenance("skipgram.py", ["SHARDS", "vectors.txt"]) if options.json else {}
    files = find_files([options.corpus])
    start = time.monotonic()
    model = Word2Vec(Sentences(files), workers=1, seed=options.seed, **SETTINGS)
    temporary = options.output.with_name(f".{options.output.name}.tmp")
    model.wv.save_word2vec_format(str(temporary), binary=False)
    temporary.replace(options.output)
    found = {
        "settings": {**SETTINGS, "seed": options.seed, "gensim": gensim.__version__},
        "words": len(model.wv),
        "tokens": model.corpus_total_words,
        "seconds": time.monotonic() - start,
        "files": [path.name for path in files],
        **origin,
    }
    print(json.dumps(found))
    if options.json:
        write(options.json, found)


if __name__ == "__main__":
    main()
