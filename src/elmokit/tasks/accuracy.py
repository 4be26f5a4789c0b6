"""The share of right answers where an answer is one of a few classes, and which class was taken for which."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from elmokit.errors import InputError

Class = str | int


@dataclass(frozen=True)
class AccuracyScore:
    """Counts of examples by their class and the predicted one."""

    classes: tuple[Class, ...]
    confusion: tuple[tuple[int, ...], ...]
    """Row: the gold class, column: the predicted one, both in the order of `classes`."""

    @property
    def num_examples(self) -> int:
        """All examples."""
        return sum(map(sum, self.confusion))

    @property
    def num_correct(self) -> int:
        """Examples whose predicted class is the gold one."""
        return sum(row[place] for place, row in enumerate(self.confusion))

    @property
    def accuracy(self) -> float:
        """Share of the examples that are right; 0 if there are none."""
        return self.num_correct / self.num_examples if self.num_examples else 0.0


def score_classes(gold: Sequence[Class], predicted: Sequence[Class], classes: Sequence[Class]) -> AccuracyScore:
    """Compare classes example by example; `classes` are all there are, in the order of the counts."""
    if len(gold) != len(predicted):
        raise InputError(f"there are {len(predicted)} predicted classes for {len(gold)} examples: give one for each.")
    known = frozenset(classes)
    for name, labels in (("gold", gold), ("predicted", predicted)):
        for number, label in enumerate(labels):
            if label not in known:
                raise InputError(
                    f"example {number} has the {name} class {label!r}: choose one of {', '.join(map(str, classes))}."
                )
    counts = Counter(zip(gold, predicted, strict=True))
    return AccuracyScore(tuple(classes), tuple(tuple(counts[row, column] for column in classes) for row in classes))
