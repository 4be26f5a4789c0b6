"""How a corpus of several files is mixed: all are read at once, each in proportion to its length.

Files are assigned to lanes, which are read in parallel; each lane reads its files one after the other. The next passage
always comes from the lane that has been read least, relative to its length, so all lanes advance at the same rate
throughout an epoch. The order depends only on the files, their lengths and the seed.
"""

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from elmokit.arguments import check_number, shown
from elmokit.corpus.passages import Passage, Place, Stretch
from elmokit.errors import ConfigError
from elmokit.random_order import random_order

Order = Literal["mixed", "files"]
ORDERS: tuple[Order, ...] = get_args(Order)
DEFAULT_ORDER: Order = "mixed"
MAX_OPEN_FILES = 32
"""An open .xz file takes as much memory as its compression window, usually 8 MB."""
MAX_WEIGHT = 100.0
_FILE_ORDER, LANE_PHASE = 0, 2  # kinds of random numbers; 1 is the order of sentences

OpenStretch = Callable[[Stretch, Place], Iterator[Passage]]


def file_weights(paths: Sequence[Path], weights: Mapping[str, float]) -> list[float]:
    """How often an epoch reads each file; 1 where no pattern matches.

    `weights` has factors by pattern, matched against the end of a path as `Path.match` does; the first match applies.

    Raises:
        ConfigError: If a pattern applies to no file, or a factor is not a positive number.
    """
    if not isinstance(weights, Mapping):
        raise ConfigError(f"weights are {shown(weights)}: give factors by pattern, e.g. {{'wikipedia-*': 2}}.")
    for pattern, weight in weights.items():
        if not isinstance(pattern, str) or not pattern.strip():
            raise ConfigError(f"a pattern of weights is {shown(pattern)}: give one of file names, e.g. 'wikipedia-*'.")
        check_number(f"the weight of {pattern!r}", weight, at_least=0, below=MAX_WEIGHT + 1e-9)
        if weight == 0:
            raise ConfigError(f"the weight of {pattern!r} is 0: leave these files out of the training text instead.")
    deciding = [next((pattern for pattern in weights if path.match(pattern)), None) for path in paths]
    for pattern in weights:
        if pattern not in deciding:
            raise ConfigError(
                f"the pattern {pattern!r} of corpus.weights decides for no training file: give one that matches their "
                f"names, e.g. {paths[0].name!r}; the first that matches a file decides."
            )
    return [1.0 if pattern is None else float(weights[pattern]) for pattern in deciding]


class Lane(NamedTuple):
    """Stretches to read one after the other."""

    stretches: list[Stretch]
    offsets: list[int]
    """Characters of the lane before each stretch, minus those of the stretch's file before it."""
    length: int


def files_in_a_row(num_files: int, *, seed: int, epoch: int, shuffle: bool) -> list[Lane]:
    """A single lane with all files, in an order that is random for each epoch if `shuffle`."""
    order = random_order(num_files, seed, epoch, _FILE_ORDER) if shuffle else np.arange(num_files)
    return [Lane([Stretch(int(number)) for number in order], [0] * num_files, 1)]


def deal_out(
    lengths: Sequence[int], weights: Sequence[float] | None, *, seed: int, epoch: int, max_lanes: int
) -> list[Lane]:
    """The lanes of an epoch.

    Every file has its own lane, if there are not too many. Otherwise a lane takes consecutive files, and all lanes are
    about equally long: files of a genre have similar names, so genres get separate lanes. Within a lane the order is
    random, but a second pass over a file follows the first pass over the others.

    `lengths` are in characters; `weights` say how often an epoch reads each file, None means once.
    """
    portions = [
        [Stretch(number)] if weights is None else _portions(number, length, weights[number], epoch)
        for number, length in enumerate(lengths)
    ]
    sizes = [sum(_size(stretch, lengths) for stretch in own) for own in portions]
    files = [number for number, size in enumerate(sizes) if size]
    ends = np.cumsum([sizes[number] for number in files])
    if len(files) <= max_lanes:
        groups = [[number] for number in files]
    else:
        middles = [2 * int(end) - sizes[number] for number, end in zip(files, ends, strict=True)]
        lane_of = [middle * max_lanes // (2 * int(ends[-1])) for middle in middles]
        pairs = zip(lane_of, files, strict=True)
        groups = [[number for _, number in group] for _, group in groupby(pairs, key=lambda pair: pair[0])]
    ranks = np.argsort(random_order(len(lengths), seed, epoch, _FILE_ORDER))
    return [_lane([portions[number] for number in group], lengths, ranks) for group in groups]


def _portions(file: int, length: int, weight: float, epoch: int) -> list[Stretch]:
    """What an epoch reads of a file that is read in a loop: each epoch continues where the last one stopped."""
    begin, end = int(epoch * weight * length), int((epoch + 1) * weight * length)
    found = []
    while begin < end:
        offset = begin % length
        stop = min(length, offset + end - begin)
        found.append(Stretch(file, offset, None if stop == length else stop))
        begin += stop - offset
    return found


def _size(stretch: Stretch, lengths: Sequence[int]) -> int:
    return (lengths[stretch.file] if stretch.end is None else stretch.end) - stretch.begin


def _lane(portions: list[list[Stretch]], lengths: Sequence[int], ranks: NDArray[np.int64]) -> Lane:
    numbered = [(turn, stretch) for own in portions for turn, stretch in enumerate(own)]
    numbered.sort(key=lambda item: (item[0], ranks[item[1].file]))
    stretches, offsets, length = [stretch for _, stretch in numbered], [], 0
    for stretch in stretches:
        offsets.append(length - stretch.begin)
        length += _size(stretch, lengths)
    return Lane(stretches, offsets, length)


class LaneReader:
    """Draws passages from lanes so that all lanes advance at the same rate, relative to their lengths.

    A passage is due when this common share reaches a point within it. The point is random for each lane, so that short
    files do not all come at the beginning. One passage of each lane is read ahead.

    Args:
        open_stretch: Yields the passages of a stretch, starting at a place.
        places: Where to start in each lane: an earlier value of the attribute `places`.
        phases: For each lane, the point within a passage at which it is due, from 0 to 1.
    """

    def __init__(
        self, lanes: Sequence[Lane], open_stretch: OpenStretch, places: Sequence[Place], phases: Sequence[float]
    ) -> None:
        self._lanes, self._phases = lanes, phases
        self.places = list(places)
        """Place of the next passage of each lane."""
        self._readers = [_read_lane(lane, open_stretch, place) for lane, place in zip(lanes, places, strict=True)]
        self._waiting = [b""] * len(lanes)
        self._turns: list[tuple[float, int]] = []
        for number in range(len(lanes)):
            turn = self._advance(number)
            if turn is not None:
                self._turns.append(turn)
        heapq.heapify(self._turns)

    @property
    def is_done(self) -> bool:
        """Whether nothing is left."""
        return not self._turns

    def take(self) -> bytes:
        """The next passage."""
        number = self._turns[0][1]
        passage = self._waiting[number]
        turn = self._advance(number)
        if turn is None:
            heapq.heappop(self._turns)
        else:
            heapq.heapreplace(self._turns, turn)
        return passage

    def _advance(self, number: int) -> tuple[float, int] | None:
        """Read the next passage of a lane and return the share at which it is due."""
        found = next(self._readers[number], None)
        lane = self._lanes[number]
        if found is None:
            self.places[number], self._waiting[number] = Place(len(lane.stretches)), b""
            return None
        self.places[number], passage = found
        self._waiting[number] = passage.text
        point = passage.begin + self._phases[number] * (passage.end - passage.begin)
        return (lane.offsets[self.places[number].file] + point) / lane.length, number


def _read_lane(lane: Lane, open_stretch: OpenStretch, place: Place) -> Iterator[tuple[Place, Passage]]:
    for number in range(place.file, len(lane.stretches)):
        start = place if number == place.file else Place()
        for passage in open_stretch(lane.stretches[number], start):
            yield Place(number, passage.line, passage.sentence), passage
