"""Open the files of a corpus, in parallel or one after the other, at the current places of an epoch."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from elmokit.arguments import check_choice, check_integer
from elmokit.corpus.mixing import LANE_PHASE, ORDERS, Lane, LaneReader, Order, deal_out, file_weights, files_in_a_row
from elmokit.corpus.passages import Passage, Place, Stretch, count_characters, file_size, read_passages, unchanged
from elmokit.corpus.stream_state import NO_STATE
from elmokit.errors import ConfigError, InputError
from elmokit.random_order import random_numbers
from elmokit.text.input_kind import InputKind, check_input, has_raw_text

_NUM_NAMED = 3


class CorpusReader:
    """Decides what an epoch reads, and reads it. The arguments are those of `SentenceStream`."""

    def __init__(
        self,
        paths: Sequence[Path],
        *,
        input: InputKind,
        seed: int,
        shuffle: bool,
        passage_sentences: int,
        order: Order,
        weights: Mapping[str, float] | None,
        lengths: Sequence[int] | None,
        max_open_files: int,
    ) -> None:
        check_input(input)
        check_choice("order", order, ORDERS)
        check_integer("max_open_files", max_open_files, at_least=1)
        if lengths is not None and len(lengths) != len(paths):
            raise ConfigError(f"lengths are {len(lengths)}, but paths {len(paths)}: give one for each file, or None.")
        if weights and not (shuffle and order == "mixed"):
            raise ConfigError("weights (corpus.weights) need text that is mixed: set order (corpus.order) to 'mixed'.")
        self.paths = paths
        self.weights = file_weights(paths, weights) if weights else None
        self.is_mixed = order == "mixed" and shuffle and (len(paths) > 1 or self.weights is not None)
        """Whether several files are read at once."""
        self._input: InputKind = input
        self._seed, self._shuffle, self._passage_sentences = seed, shuffle, passage_sentences
        self._lengths, self._max_open_files = lengths, max_open_files
        self._sizes = [file_size(path) for path in paths]
        self._dealt: tuple[int, list[Lane]] | None = None

    def identity(self) -> dict[str, int]:
        """Settings that must be unchanged for a place to mean the same sentences."""
        return {
            "num_files": len(self.paths),
            "names": _digest(path.name for path in self.paths),
            "sizes": _digest(map(str, self._sizes)),
            "raw_text": int(has_raw_text(self.paths, self._input)),
            "mixed": int(self.is_mixed),
            "weights": _digest(map(repr, self.weights)) if self.weights else 0,
            "max_open_files": self._max_open_files if self.is_mixed else 0,
        }

    def open(self, epoch: int, begin: tuple[Place, ...]) -> LaneReader:
        """Read an epoch, starting at a place in each lane, or at the beginning if `begin` is empty."""
        lanes = self._lanes(epoch)
        begin = begin or (Place(),) * len(lanes)
        if not _fits(begin, lanes):
            raise InputError(NO_STATE)
        phases = random_numbers(len(lanes), self._seed, epoch, LANE_PHASE) / 2**64
        return LaneReader(lanes, self._open_stretch, begin, phases.tolist())

    def _lanes(self, epoch: int) -> list[Lane]:
        """The lanes that an epoch reads in parallel."""
        if self._dealt is None or self._dealt[0] != epoch:
            self._dealt = epoch, self._deal_out(epoch)
        return self._dealt[1]

    def _deal_out(self, epoch: int) -> list[Lane]:
        if not self.is_mixed:
            return files_in_a_row(len(self.paths), seed=self._seed, epoch=epoch, shuffle=self._shuffle)
        if self._lengths is None:
            self._lengths = self._count_characters()
        return deal_out(self._lengths, self.weights, seed=self._seed, epoch=epoch, max_lanes=self._max_open_files)

    def _count_characters(self) -> list[int]:
        found: dict[Path, int] = {}
        for path, size in zip(self.paths, self._sizes, strict=True):
            if path not in found:
                with unchanged(path, size):
                    found[path] = count_characters(path)
        return [found[path] for path in self.paths]

    def _open_stretch(self, stretch: Stretch, start: Place) -> Iterator[Passage]:
        path, size = self.paths[stretch.file], self._passage_sentences
        with unchanged(path, self._sizes[stretch.file]):
            yield from read_passages(path, input=self._input, num_sentences=size, stretch=stretch, start=start)

    def describe(self, epoch: int, begin: tuple[Place, ...]) -> str:
        """The files and lines of places, for messages."""
        if not begin and self.is_mixed:  # the beginning of all files
            places = [(path, 0) for path in self.paths]
        else:
            begin, lanes = begin or (Place(),), self._lanes(epoch)
            if not _fits(begin, lanes):
                return "an unknown place"
            pairs = zip(lanes, begin, strict=True)
            rows = [(lane.stretches[place.file], place) for lane, place in pairs if place.file < len(lane.stretches)]
            places = [(self.paths[stretch.file], place.line) for stretch, place in rows]
        named = "; ".join(f"{path}, line {line + 1}" for path, line in places[:_NUM_NAMED])
        return named + ("; …" if len(places) > _NUM_NAMED else "")


def _fits(begin: Sequence[Place], lanes: Sequence[Lane]) -> bool:
    """Whether there is one valid place for each lane."""
    return len(begin) == len(lanes) and all(
        place.file <= len(lane.stretches) for place, lane in zip(begin, lanes, strict=True)
    )


def _digest(values: Iterable[str]) -> int:
    """A 48-bit hash of a list of str, small enough for JSON to hold exactly."""
    return int.from_bytes(hashlib.sha256("\0".join(values).encode("utf-8", "surrogateescape")).digest()[:6])
