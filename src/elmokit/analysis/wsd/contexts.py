"""What a model knows about a tagged word and its context: four vectors per occurrence.

`own`         the word's own layers above layer 0
`window`      their mean over the five tokens on each side
`neighbours`  layer 0 of the two tokens on each side, in order: which words are adjacent
`sentence`    the mean of all layers over the rest of the sentence

Layers are concatenated in a vector, each normalized to length one by `metric`. If both directions share layer 0, only
one half of it is used.

Notation: N occurrences, L layers, T tokens, D width of a layer.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmokit.analysis.embed import Embed, embed_checked
from elmokit.analysis.wsd.target_vectors import BLOCK_SENTENCES
from elmokit.analysis.wsd.wordnet import SenseSentence, Target, Word

VIEWS = ("own", "window", "neighbours", "sentence")
WINDOW = 5
NUM_NEIGHBORS = 2
Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Occurrences:
    """Tagged words with their vectors, in text order."""

    words: list[Word]
    keys: list[tuple[str, ...]]
    sources: list[str]
    views: dict[str, list[NDArray[np.float16]]]
    """By the names of `VIEWS`: parts (N, …) to concatenate."""

    def __len__(self) -> int:
        return len(self.words)

    def pick(self, rows: Sequence[int]) -> "Occurrences":
        """A subset of the occurrences."""
        return Occurrences(
            [self.words[row] for row in rows],
            [self.keys[row] for row in rows],
            [self.sources[row] for row in rows],
            {view: [part[rows] for part in parts] for view, parts in self.views.items()},
        )


def gather_occurrences(embed: Embed, sentences: Iterable[SenseSentence]) -> Occurrences:
    """The occurrences of sentences; only their vectors are kept after each block of sentences."""
    tagged = [sentence for sentence in sentences if sentence.targets]
    targets = [target for sentence in tagged for target in sentence.targets]
    sources = [sentence.source for sentence in tagged for _ in sentence.targets]
    views: dict[str, list[NDArray[np.float16]]] = {}
    place = 0
    for start in range(0, len(tagged), BLOCK_SENTENCES):
        block = tagged[start : start + BLOCK_SENTENCES]
        for sentence, layers in zip(block, embed_checked(embed, [s.tokens for s in block]), strict=True):
            around = _Surroundings(layers.astype(np.float32))
            for target in sentence.targets:
                for name, parts in around.views(target).items():
                    kept = views.setdefault(name, [np.empty((len(targets), len(p)), np.float16) for p in parts])
                    for array, part in zip(kept, parts, strict=True):
                        array[place] = part
                place += 1
    return Occurrences([target.word for target in targets], [target.keys for target in targets], sources, views)


class _Surroundings:
    """Cumulative sums over the tokens of a sentence, from which the mean of any range follows."""

    def __init__(self, layers: Floats) -> None:
        num_layers, num_tokens, width = layers.shape
        halves = layers[0, :, : width // 2], layers[0, :, width // 2 :]
        self.token_layer = halves[0] if width % 2 == 0 and np.array_equal(*halves) else layers[0]  # (T, D or D/2)
        upper = layers[1:] if num_layers > 1 else layers  # (L − 1, T, D)
        self.upper_sums = np.concatenate([np.zeros_like(upper[:, :1]), upper.cumsum(1)], 1)  # (L − 1, T + 1, D)
        self.token_sum = self.token_layer.sum(0)  # (D,)
        self.num_tokens = num_tokens

    def views(self, target: Target) -> dict[str, list[Floats]]:
        """The parts of each view."""
        start, end = target.start, target.end
        first, last = max(0, start - WINDOW), min(self.num_tokens, end + WINDOW)
        own = self.upper_sums[:, end] - self.upper_sums[:, start]  # (L − 1, D)
        window = self.upper_sums[:, last] - self.upper_sums[:, first] - own  # (L − 1, D)
        others = self.upper_sums[:, -1] - own  # (L − 1, D)
        size = end - start
        others_0 = self.token_sum - self.token_layer[start:end].sum(0)  # (D,)
        num_others = max(self.num_tokens - size, 1)
        return {
            "own": list(own / size),
            "window": list(window / max(last - first - size, 1)),
            "neighbours": [
                self.token_layer[place] if 0 <= place < self.num_tokens else np.zeros_like(self.token_sum)
                for place in (*range(start - NUM_NEIGHBORS, start), *range(end, end + NUM_NEIGHBORS))
            ],
            "sentence": [others_0 / num_others, *(others / num_others)],
        }
