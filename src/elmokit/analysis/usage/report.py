"""Reports of a word's sense groups, of its shift between two corpora, and of the words that shift most."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from elmokit.analysis.occurrence import Occurrence
from elmokit.analysis.report import Block, Cell, Concordance, Line, Report, Table
from elmokit.analysis.usage.chart import chart_shares, chart_shifts, map_corpora, map_groups, plane
from elmokit.analysis.usage.groups import MAX_CHANCE, MIN_STRENGTH, Grouping, characteristic_words
from elmokit.analysis.usage.ranking import RankedWord
from elmokit.analysis.usage.shift import Comparison
from elmokit.wording import counted

_TYPICAL, _BORDERLINE, _ISOLATED, _WORDS, _NAMING_WORDS = 6, 3, 6, 10, 3


@dataclass(frozen=True)
class Subject:
    """What was analyzed: the word, the text and the model."""

    word: str
    forms: tuple[str, ...]
    corpora: tuple[str, ...]
    """Names of one corpus or two."""
    num_seen: tuple[int, ...]
    """Number of all occurrences in each corpus."""
    num_sampled: tuple[int, ...]
    """The sampled occurrences."""
    occurrences: Sequence[Occurrence]
    """Those of the first corpus, then those of the second."""
    settings: dict[str, Any]
    """The model and the other settings that determine the result, for the figures."""


def senses_report(subject: Subject, grouping: Grouping) -> Report:
    """A word's groups: their words, typical and borderline sentences, and a map."""
    names, words = name_groups(subject, grouping)
    blocks = (_sampled(subject), _explain_number(grouping), *_group_blocks(subject, grouping, names, words))
    figures = _common_figures(subject, grouping, words)
    return Report(f"How “{subject.word}” is used in {subject.corpora[0]}", blocks, figures)


def shift_report(subject: Subject, found: Comparison) -> Report:
    """A word's shift from the first corpus to the second, with examples."""
    grouping, shares = found.grouping, found.shares  # shares (2, G)
    names, words = name_groups(subject, grouping)
    measures = Table(
        "Distances between the corpora; chance is how often shuffled occurrences are as far apart",
        ("measure", "distance", "chance"),
        (
            ("APD, mean distance of two occurrences, one from each", found.apd.value, found.apd.chance),
            (f"the same within {subject.corpora[0]}", found.within[0], None),
            (f"the same within {subject.corpora[1]}", found.within[1], None),
            ("shift: APD less the mean of those within", found.shift, None),
            ("PRT, distance of the mean vectors", found.prt.value, found.prt.chance),
            ("JSD, distance of the groups' shares", found.jsd.value, found.jsd.chance),
        ),
        decimals=3,
    )
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (name, *(100 * float(share) for share in column)) for name, column in zip(names, shares.T, strict=True)
    )
    share_table = Table("Share of each group in percent", ("group", *subject.corpora), rows)
    chart = chart_shares(subject.word, subject.corpora, names, shares.tolist())
    blocks: list[Block] = [_sampled(subject), measures, share_table, chart]
    for own in (1, 0):
        lines = _lines(subject, found.most_isolated(own == 1, _ISOLATED), found.isolation.tolist())
        caption = f"In {subject.corpora[own]}, farthest from anything in {subject.corpora[1 - own]}"
        blocks.append(Concordance(caption, lines, note="distance"))
    corpora = [subject.corpora[second] for second in found.is_second.astype(int).tolist()]
    blocks.append(map_corpora(subject.word, grouping, subject.occurrences, corpora))
    blocks += [_explain_number(grouping), *_group_blocks(subject, grouping, names, words)]
    figures = _common_figures(subject, grouping, words)
    figures |= {
        "apd": {"value": found.apd.value, "chance": found.apd.chance},
        "within": list(found.within),
        "shift": found.shift,
        "prt": {"value": found.prt.value, "chance": found.prt.chance},
        "jsd": {"value": found.jsd.value, "chance": found.jsd.chance},
        "shares": shares.tolist(),
    }
    for row, second, isolation in zip(
        figures["occurrences"], found.is_second.tolist(), found.isolation.tolist(), strict=True
    ):
        row |= {"corpus": subject.corpora[second], "loneliness": round(isolation, 4)}
    title = f"How the use of “{subject.word}” differs between {' and '.join(subject.corpora)}"
    return Report(title, tuple(blocks), figures)


def ranking_report(
    ranked: Sequence[RankedWord], number: int, corpora: tuple[str, str], settings: dict[str, Any]
) -> Report:
    """The first ranked words."""
    first = ranked[:number]
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (one.word, *one.counts, one.shift, one.noise, *one.halves, one.chance) for one in first
    )
    header = ("word", "in 1", "in 2", "shift", "shuffled", "inside 1", "inside 2", "chance")
    caption = (
        f"{counted(len(first), 'word')} of {len(ranked):,} whose use differs most between 1, {corpora[0]}, and 2, "
        f"{corpora[1]}"
    )
    table = Table(caption, header, rows, decimals=3)
    middle = sorted(one.shift for one in ranked)[len(ranked) // 2]
    note = (
        "The shift is the mean distance of two occurrences in different corpora minus that of two in the same corpus. "
        "Words are ranked by how far it exceeds the highest of the next three columns: the shift that occurrences "
        "exceed once in 20 times if they are shuffled between the corpora, and the shift between the halves of each "
        f"corpus. The median shift of all words is {middle:.3f}: that much is due to the corpora, not to the word."
    )
    chart = chart_shifts(first, middle, corpora)
    blocks: list[Block] = [note, table, chart]
    for side, name in enumerate(corpora):
        lines = tuple(_line(one.examples[side], one.word) for one in first)
        caption = f"In {name}, of each word the use that is farthest from the other corpus"
        blocks.append(Concordance(caption, lines, note="word"))
    figures = {
        **settings,
        "corpora": list(corpora),
        "num_words": len(ranked),
        "median_shift": middle,
        "words": [
            {
                "word": one.word,
                "counts": list(one.counts),
                "apd": one.apd,
                "shift": one.shift,
                "noise": one.noise,
                "halves": list(one.halves),
                "chance": one.chance,
                "examples": [" ".join(example.tokens) for example in one.examples],
            }
            for one in first
        ],
    }
    return Report(f"Words whose use differs between {' and '.join(corpora)}", tuple(blocks), figures)


def name_groups(subject: Subject, grouping: Grouping) -> tuple[list[str], list[list[tuple[str, float]]]]:
    """The name of each group, and its distinctive words; names contain only words that not every sentence has."""
    forms = {form.lower() for form in subject.forms}
    contexts = [
        {token.lower() for token in o.tokens if any(map(str.isalpha, token))} - forms for o in subject.occurrences
    ]
    words = characteristic_words(contexts, grouping.groups, _WORDS)
    if grouping.num_groups == 1:
        return ["1"], [[]]
    counts = Counter(word for context in contexts for word in context)
    names = []
    for number, own in enumerate(words, 1):
        telling = [word for word, _ in own if counts[word] <= len(contexts) / 4][:_NAMING_WORDS]
        names.append(f"{number}: {', '.join(telling)}" if telling else str(number))
    return names, words


def _sampled(subject: Subject) -> str:
    def say(name: str, seen: int, sampled: int) -> str:
        return f"{counted(seen, 'time')} in {name}" + (
            f" ({sampled:,} of them were looked at)" if sampled < seen else ""
        )

    said = " and ".join(map(say, subject.corpora, subject.num_seen, subject.num_sampled))
    return f"{' / '.join(subject.forms)} occurs {said}. A repeated sentence counts once."


def _explain_number(grouping: Grouping) -> str:
    found = grouping.agreement.num_groups
    strengths = ", ".join(f"{strength:.2f}" for strength in grouping.agreement.strengths)
    reason = (
        f"the text before the word and the text after it agree in {counted(found - 1, 'independent direction')} (a "
        f"corrected correlation of at least {MIN_STRENGTH} and a chance of at most {MAX_CHANCE}; there were "
        f"{strengths})"
    )
    if grouping.num_groups == found:
        return f"{_count(found)}: {reason}."
    return f"{_count(grouping.num_groups)}, as asked for; {_count(found)} would have been made: {reason}."


def _count(number: int) -> str:
    return "One group" if number == 1 else f"{number} groups"


def _group_blocks(
    subject: Subject, grouping: Grouping, names: list[str], words: list[list[tuple[str, float]]]
) -> list[Block]:
    total = len(subject.occurrences)
    rows = tuple(
        (str(number), size, 100 * size / total, ", ".join(word for word, _ in own))
        for number, (size, own) in enumerate(zip(grouping.sizes, words, strict=True), 1)
    )
    caption = "Groups, and the words of their sentences that set them apart"
    blocks: list[Block] = [Table(caption, ("group", "occurrences", "%", "words"), rows)]
    one_corpus = len(subject.corpora) == 1
    blocks.append(map_groups(subject.word, grouping, subject.occurrences, names, one_corpus=one_corpus))
    for group, name in enumerate(names):
        typical = _lines(subject, grouping.typical(group, _TYPICAL))
        blocks.append(Concordance(f"Group {name} – typical", typical, note="place"))
        if borderline := grouping.borderline(group, _BORDERLINE):
            blocks.append(Concordance(f"Group {name} – borderline", _lines(subject, borderline), note="place"))
    return blocks


def _lines(subject: Subject, rows: Sequence[int], values: Sequence[float] | None = None) -> tuple[Line, ...]:
    notes = [_short(subject.occurrences[row].source) if values is None else f"{values[row]:.2f}" for row in rows]
    return tuple(_line(subject.occurrences[row], note) for row, note in zip(rows, notes, strict=True))


def _short(source: str) -> str:
    """A file name without suffixes, and the line."""
    name, _, line = source.rpartition(":")
    return f"{name.partition('.')[0] or name}:{line}"


def _line(occurrence: Occurrence, note: str) -> Line:
    tokens, place = occurrence.tokens, occurrence.position
    return Line(" ".join(tokens[:place]), occurrence.form, " ".join(tokens[place + 1 :]), note)


def _common_figures(subject: Subject, grouping: Grouping, words: list[list[tuple[str, float]]]) -> dict[str, Any]:
    return {
        "word": subject.word,
        "forms": list(subject.forms),
        "corpora": list(subject.corpora),
        "num_seen": list(subject.num_seen),
        "num_sampled": list(subject.num_sampled),
        **subject.settings,
        "num_groups": grouping.num_groups,
        "strengths": list(grouping.agreement.strengths),
        "chances": list(grouping.agreement.chances),
        "groups": [
            {"group": number, "size": size, "words": [[word, round(score, 3)] for word, score in own]}
            for number, (size, own) in enumerate(zip(grouping.sizes, words, strict=True), 1)
        ],
        "occurrences": [
            {
                "sentence": " ".join(occurrence.tokens),
                "place": occurrence.position,
                "source": occurrence.source,
                "group": group + 1,
                "fit": round(fit, 4),
                "x": round(x, 4),
                "y": round(y, 4),
            }
            for occurrence, group, fit, (x, y) in zip(
                subject.occurrences,
                grouping.groups.tolist(),
                grouping.fits.tolist(),
                plane(grouping),
                strict=True,
            )
        ],
    }
