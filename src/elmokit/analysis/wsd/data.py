"""The data for disambiguation, from one folder: SemCor, WordNet's index, the evaluation sets."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from elmokit.analysis.wsd.semcor import PARTS, read_semcor
from elmokit.analysis.wsd.sets import SETS, read_wsd_set
from elmokit.analysis.wsd.wordnet import SenseIndex, SenseSentence, Word, read_sense_index
from elmokit.errors import InputError


@dataclass(frozen=True)
class WsdData:
    """Tagged training text, evaluation sets and all senses."""

    train: list[SenseSentence]
    sets: dict[str, list[SenseSentence]]
    index: SenseIndex

    @property
    def words(self) -> set[Word]:
        """The words in the evaluation sets."""
        return {target.word for own in self.sets.values() for sentence in own for target in sentence.targets}


def read_wsd_data(folder: Path, parts: Collection[str] = PARTS) -> WsdData:
    """Read a folder with SemCor's archive, WordNet's index.sense and evaluation sets in eval/.

    Those of the framework's five sets are read that have a folder; at least one is required.
    """
    semcor, index = _find(folder, "semcor*.tar*"), _find(folder, "*index.sense*")
    names = [name for name in SETS if (folder / "eval" / name).is_dir()]
    if not names:
        raise InputError(f"{folder}/eval has none of {', '.join(SETS)}: give a folder with at least one of these sets.")
    senses = read_sense_index(index)
    sets = {name: list(read_wsd_set(folder / "eval" / name)) for name in names}
    for name, sentences in sets.items():
        for target in (target for sentence in sentences for target in sentence.targets):
            if unknown := [key for key in target.keys if key not in senses.numbers]:
                raise InputError(
                    f"the gold key {unknown[0]!r} of {target.name} in {name} is not a sense in {index}: correct it, or "
                    "give the index of the WordNet that the set was tagged with."
                )
    return WsdData(list(read_semcor(semcor, parts)), sets, senses)


def _find(folder: Path, pattern: str) -> Path:
    found = sorted(path for path in folder.glob(pattern) if path.is_file())
    if len(found) != 1:
        listed = ", ".join(path.name for path in found) or "none"
        raise InputError(f"{folder} must have one file {pattern}, and has {listed}.")
    return found[0]
