"""The text of a run: its tokenizer, its counts, and the streams that training and evaluation read.

The training text is counted once per run, in one pass. The run's folder keeps the counts: sizes in `corpus.json`, the
vocabulary in `vocab.txt`, and how often each word of it is predicted in `counts.txt`.
"""

import json
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from elmokit.config import TokenizerConfig
from elmokit.corpus.counting import build_vocabulary
from elmokit.corpus.mixing import file_weights
from elmokit.corpus.stream import SentenceStream
from elmokit.corpus.survey import Survey, survey_corpus
from elmokit.errors import ConfigError, ElmokitWarning, InputError
from elmokit.filesystem import atomic_path, write_text_atomic
from elmokit.progress import ProgressCallback
from elmokit.text.files import find_files, refuse_pipes
from elmokit.text.tokenizers import check_training_text, name_tokenizer, text_tokenizer
from elmokit.text.vocabulary import BEGIN, END, SPECIALS, UNKNOWN, Vocabulary, read_vocabulary, write_vocabulary
from elmokit.training.config import RunConfig
from elmokit.training.heldout import first_predictions, read_heldout, sample_evenly
from elmokit.training.run_files import RunFiles
from elmokit.training.run_folder import SURVEY, tokenizer_of_run
from elmokit.wording import counted

_CLEAN = "make clean files of it with elmokit corpus shard --errors replace"


class RunText:
    """The training text and the held-out text of a run."""

    def __init__(self, config: RunConfig, files: RunFiles) -> None:
        self._config, self._files, self._output = config, files, files.output
        self.train_files = find_files(files.train)
        refuse_pipes(self.train_files)
        self.heldout_paths = find_files(files.heldout)
        self.tokenizer = text_tokenizer(self.train_files, config.corpus.input)
        """Tokenizer of the training text; None if its files have different ones."""

    def check_tokenizer(self, trained: TokenizerConfig | None, *, is_resumed: bool) -> None:
        """Report text of several tokenizers, or of another tokenizer than the earlier text of the run or model."""
        check_training_text(trained, self.train_files, self._config.corpus.input)
        if self.tokenizer is None and self.train_files:
            warnings.warn(
                "the training text was tokenized in more than one way, so words may be cut differently from file to "
                "file: give text of one tokenizer, e.g. all of it raw.",
                ElmokitWarning,
                stacklevel=2,
            )
        before, now = tokenizer_of_run(self._output) if is_resumed else None, self.tokenizer
        if before is not None and now is not None and before != now and before.name == now.name:
            raise ConfigError(
                f"the text of the run to resume was tokenized with {name_tokenizer(before)}, but now with "
                f"{name_tokenizer(now)}: resume it with the elmokit that began it, or start a new run in another "
                "folder."
            )

    def read_heldout(self) -> None:
        """Read the held-out text."""
        self.heldout_files = read_heldout(self.heldout_paths, input=self._config.corpus.input)
        self.heldout = [sentence for text in self.heldout_files.values() for sentence in text]
        if self._files.heldout and not self.heldout:
            raise InputError(
                f"the held-out text ({', '.join(self._files.heldout)}) has no sentence: give files with text."
            )

    def sample_heldout(self) -> Sequence[str]:
        """The held-out text for evaluations during training; runs that read file by file keep their old sample."""
        limit = self._config.heldout_tokens
        if self._config.corpus.order == "files":
            return first_predictions(self.heldout, limit)
        return sample_evenly(self.heldout_files, limit)

    def survey(self, reading: ProgressCallback | None, *, has_checkpoints: bool) -> None:
        """Count the training text, once per run, and store its vocabulary and size.

        A resumed run keeps its counts: if its text or its settings have changed, loading the checkpoint fails.
        """
        path, settings = self._output / SURVEY, self._config.corpus
        key = {
            "files": [[str(file.resolve()), file.stat().st_size] for file in self.train_files],
            "settings": settings.model_dump(mode="json"),
            "vocab": str(self._files.vocab or ""),
            "heldout": list(self._files.heldout),
            "tokenizer": self.tokenizer and self.tokenizer.model_dump(),
        }
        if path.exists() and (has_checkpoints or self.read_survey()["key"] == key):
            return
        weights = file_weights(self.train_files, settings.weights or {})
        found = self._count(reading)
        counts, num_words, num_sentences = found.words.counts, found.num_words, found.num_sentences
        if self._files.vocab is not None:
            vocabulary = read_vocabulary(self._files.vocab)
        else:
            vocabulary = build_vocabulary(counts, min_count=settings.min_count, max_size=settings.max_vocab)
        known = sum(counts[word] for word in vocabulary.tokens if word not in SPECIALS)
        if not known:
            raise ConfigError(
                f"no word of the training text is in {self._files.vocab}: give the vocabulary of this language, "
                "or leave --vocab out to count one."
            )
        if found.num_repeated:
            warnings.warn(
                f"{found.num_repeated:,} of {found.num_compared:,} held-out sentences of five tokens or more are also "
                "in the training text, so the held-out perplexity is too good.",
                ElmokitWarning,
                stacklevel=2,
            )
        with atomic_path(self._output / "vocab.txt") as temporary:
            write_vocabulary(vocabulary, temporary)
        special = {BEGIN: num_sentences // 2, END: num_sentences // 2, UNKNOWN: num_words - known}
        lines = (f"{special.get(word, counts[word])}\n" for word in vocabulary.tokens)
        write_text_atomic(self._output / "counts.txt", "".join(lines))
        size = {
            "num_words": num_words,
            "num_sentences": num_sentences,
            "num_predictions": num_words + num_sentences,
            "epoch_predictions": found.weighted_predictions(weights),
            "vocab_size": len(vocabulary),
            "oov_rate": 1 - known / num_words,
            "heldout_repeated": [found.num_repeated, found.num_compared],
            "by_file": [size._asdict() for size in found.by_file],
        }
        write_text_atomic(path, json.dumps({**size, "key": key}, indent=1) + "\n")

    def _count(self, reading: ProgressCallback | None) -> Survey:
        paths, kind = self.train_files, self._config.corpus.input
        if not paths:
            raise InputError("there are no training files: name at least one.")
        found = survey_corpus(paths, input=kind, advice=_CLEAN, heldout=self.heldout, progress=reading)
        if not found.num_words:
            raise InputError(
                f"the training text ({counted(len(paths), 'file')}, {paths[0]} …) has no word: give files with text."
            )
        return found

    def read_survey(self) -> dict[str, Any]:
        """The sizes that `survey` stored, as plain values."""
        content: dict[str, Any] = json.loads((self._output / SURVEY).read_text(encoding="utf-8"))
        return content

    def vocabulary(self) -> Vocabulary:
        """The vocabulary that `survey` stored."""
        return read_vocabulary(self._output / "vocab.txt")

    def frequencies(self) -> Tensor:
        """How often each word of the vocabulary is predicted; each boundary is predicted by one direction only."""
        counts = [int(line) for line in (self._output / "counts.txt").read_text(encoding="utf-8").split()]
        return torch.tensor(counts, dtype=torch.float64)  # (V,)

    def open(self) -> SentenceStream:
        """The stream of the training text, from its beginning."""
        config, sizes = self._config, self.read_survey().get("by_file", [])
        return SentenceStream(
            self.train_files,
            input=config.corpus.input,
            seed=config.seed,
            buffer_sentences=config.corpus.buffer_sentences,
            passage_sentences=config.corpus.passage_sentences,
            num_epochs=None if config.loop.max_steps or config.optimizer.schedule == "wsd" else config.num_epochs,
            order=config.corpus.order,
            weights=config.corpus.weights,
            lengths=[size["characters"] for size in sizes] if len(sizes) == len(self.train_files) else None,
        )

    def skip(self, sentences: SentenceStream) -> None:
        """Pass over the predictions that the run is to skip."""
        num_skipped = 0
        while num_skipped < self._files.skip_tokens:
            sentence = next(sentences, None)
            if sentence is None:
                raise ConfigError(
                    f"--skip-tokens {self._files.skip_tokens:,} passes over all {num_skipped:,} predictions of the "
                    "training text and its epochs: give less."
                )
            num_skipped += len(sentence) + 1
