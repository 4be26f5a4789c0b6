"""Readers of SemCor, of sets to disambiguate and of WordNet's index: small files, damaged ones and the real ones."""

import gzip
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from elmokit.analysis.wsd.semcor import Form, read_forms, read_semcor, to_sentence
from elmokit.analysis.wsd.sets import SETS, read_gold, read_wsd_set
from elmokit.analysis.wsd.wordnet import SenseSentence, Target, Word, read_sense_index, word_of
from elmokit.errors import ConfigError, FormatError, InputError, UnsafeFileError
from elmokit.text import archive as text_archive
from tests.analysis.sense_files import DATA as SET
from tests.analysis.sense_files import GOLD, INDEX, TEXT, write_index, write_semcor, write_set
from tests.data import DATA, needs_data

WSD = DATA / "wsd"

PLACE = "semcor3.0/brown1/tagfiles/br-x01"
BANK, PERSON = Word("bank", "noun"), Word("person", "noun")


def test_sense_keys() -> None:
    assert word_of("take_place%2:30:00::") == Word("take_place", "verb")
    assert word_of("kind%5:00:00:good:01") == word_of("kind%3:00:00::") == Word("kind", "adj")
    assert word_of("o'clock%4:02:00::") == Word("o'clock", "adv")
    for wrong in ("bank", "bank%6:00:00::", "%1:14:00::", "bank%1:14:00", "bank%1:14:00:: ", "kind%5:00:00:good(a)"):
        assert word_of(wrong) is None


class TestIndex:
    def test_order_is_by_number_and_satellites_are_adjectives(self, tmp_path: Path) -> None:
        index = read_sense_index(write_index(tmp_path / "index.sense.xz"))
        assert index.senses[BANK] == ("bank%1:17:01::", "bank%1:14:00::", "bank%1:06:00::")
        assert index.first_sense(BANK) == "bank%1:17:01::"
        assert index.first_sense(Word("bank", "verb")) is None
        assert index.senses[Word("kind", "adj")] == ("kind%3:00:00::", "kind%5:00:00:good:01")
        assert index.numbers["bank%1:14:00::"] == 2
        assert index.in_order(["x%1:01:00::", "bank%1:06:00::", "bank%1:17:01::"])[0] == "bank%1:17:01::"
        assert index.in_order(["x%1:01:00::", "bank%1:06:00::"])[1] == "x%1:01:00::"

    @pytest.mark.parametrize("line", ["bank%1:06:00:: 1 1", "bank 1 1 1", "x%1:06:00:: 1 one 1", "", INDEX[:28]])
    def test_bad_lines(self, line: str, tmp_path: Path) -> None:
        path = write_index(tmp_path / "index.sense.xz", f"{INDEX}{line}\n")
        with pytest.raises(FormatError, match=r"index\.sense\.xz line 11 is .*give WordNet's index\.sense\.$"):
            read_sense_index(path)

    def test_nothing(self, tmp_path: Path) -> None:
        with pytest.raises(FormatError, match="is empty"):
            read_sense_index(write_index(tmp_path / "index.sense.xz", ""))

    @pytest.mark.slow
    @needs_data("wsd")
    def test_wordnet(self) -> None:
        index = read_sense_index(WSD / "wordnet3.0-index.sense.xz")
        assert len(index.numbers) == sum(map(len, index.senses.values())) == 206_941
        assert all(index.numbers[keys[0]] == 1 for keys in index.senses.values())
        assert index.first_sense(Word("good", "adj")) == "good%3:00:01::"


class TestSemcor:
    @pytest.fixture(params=["xz", "gz"])
    def archive(self, request: pytest.FixtureRequest, tmp_path: Path) -> Path:
        return write_semcor(tmp_path / f"semcor.tar.{request.param}", {PLACE: TEXT})

    def test_sentences(self, archive: Path) -> None:
        first, second = read_semcor(archive, ["brown1"])
        assert first == SenseSentence(
            ("The", "bank", "took", "place", "to", "."),
            (
                Target(1, 2, BANK, ("bank%1:14:00::",)),
                Target(2, 4, Word("take_place", "verb"), ("take_place%2:30:00::",)),
            ),
            "brown1/br-x01",
        )
        assert second.tokens == ("Mr.", "Lee", "banks", "showed", "play", "kind", "be")
        assert second.targets == (
            Target(0, 2, PERSON, ("person%1:03:00::",)),
            Target(2, 3, BANK, ("bank%1:17:01::", "bank%1:14:00::")),
            Target(4, 5, Word("play", "noun"), ("play%1:04:01::",)),
            Target(5, 6, Word("kind", "adj"), ("kind%5:00:00:good:01",)),
        )

    def test_forms_are_as_written(self, archive: Path) -> None:
        forms = [form for _, forms in read_forms(archive, ["brown1"]) for form in forms]
        assert forms[2] == Form("took_place", "VB", "take_place", "1", "2:30:00::")
        assert forms[4] == Form(".")
        assert sum(bool(form.lexsn) for form in forms) == 7

    def test_parts(self, tmp_path: Path) -> None:
        other = TEXT.replace("bank", "shore")
        archive = write_semcor(tmp_path / "s.tar.xz", {PLACE: TEXT, "brownv/tagfiles/br-y01": other, "brown2/x": "?"})
        assert [sentence.source for sentence in read_semcor(archive, ["brownv"])] == ["brownv/br-y01"] * 2
        assert len(list(read_semcor(archive, ["brown1", "brownv"]))) == 4
        with pytest.raises(FormatError, match=r"s\.tar\.xz has no texts of brown2: give"):
            list(read_semcor(archive))
        with pytest.raises(ConfigError, match=r"no part 'brown3': choose from brown1, brown2, brownv\.$"):
            list(read_semcor(archive, ["brown3"]))

    @pytest.mark.parametrize(
        ("old", "new", "line", "what"),
        [
            ("<punc>.</punc>", "<punc>.", 9, "not an element"),
            ("<punc>.</punc>", "<foo>.</foo>", 9, "not an element"),
            ("<punc>.</punc>", "<punc></punc>", 9, "not an element"),
            ("</s>\n<s snum=2>", "<s snum=2>", 10, "a sentence inside a sentence"),
            ("<s snum=2>\n", "", 11, "a form outside a sentence"),
            ("<s snum=1>\n", "</s>\n<s snum=1>\n", 4, "the end of a sentence that did not begin"),
            ("</s>\n</p>\n</context>\n</contextfile>\n", "", 18, "the end inside a sentence"),
            ("wnsn=1;2", "wnsn=1", 13, "a tag whose lemma"),
            ("lexsn=2:30:00::", "lexsn=7:30:00::", 7, "a tag whose lemma"),
            ("lemma=take_place ", "", 7, "a tag whose lemma"),
        ],
    )
    def test_bad_lines(self, old: str, new: str, line: int, what: str, tmp_path: Path) -> None:
        assert old in TEXT
        archive = write_semcor(tmp_path / "s.tar.xz", {PLACE: TEXT.replace(old, new, 1)})
        with pytest.raises(FormatError, match=rf"s\.tar\.xz: brown1/br-x01 line {line} is {what}.*: correct it"):
            list(read_semcor(archive, ["brown1"]))

    def test_senses_without_number_are_none(self, tmp_path: Path) -> None:
        archive = write_semcor(tmp_path / "s.tar.xz", {PLACE: TEXT.replace(" wnsn=1 ", " ").replace("\n<", "\r\n<")})
        found = [target.word.lemma for sentence in read_semcor(archive, ["brown1"]) for target in sentence.targets]
        assert found == ["bank", "bank", "play", "kind"]

    def test_damaged_archives(self, archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        whole = archive.read_bytes()
        for content in (whole[: len(whole) // 2], b"no archive", b""):
            archive.write_bytes(content)
            with pytest.raises(FormatError, match=r"is damaged or not an archive .*: give SemCor 3\.0's"):
                list(read_semcor(archive, ["brown1"]))
        with pytest.raises(InputError, match="cannot be read: No such file"):
            list(read_semcor(tmp_path / "none.tar.xz"))
        archive.write_bytes(whole)
        monkeypatch.setattr(text_archive, "MAX_FILE_BYTES", 100)
        with pytest.raises(FormatError, match=r"br-x01 has [\d,]+ bytes, more than any text: give SemCor 3\.0's .*\.$"):
            list(read_semcor(archive, ["brown1"]))

    def test_text_that_is_not_utf8(self, tmp_path: Path) -> None:
        archive = write_semcor(tmp_path / "s.tar.gz", {PLACE: TEXT})
        archive.write_bytes(gzip.compress(gzip.decompress(archive.read_bytes()).replace(b"Lee", b"L\xe9e")))
        with pytest.raises(FormatError, match="br-x01 is not UTF-8 text"):
            list(read_semcor(archive, ["brown1"]))

    @pytest.mark.slow
    @needs_data("wsd")
    def test_whole(self) -> None:
        files: set[str] = set()
        counts: Counter[Any] = Counter()
        senses = 0
        keys: set[str] = set()
        for source, forms in read_forms(WSD / "semcor3.0.tar.xz"):
            part = source.partition("/")[0]
            files.add(source)
            counts[part, "sentences"] += 1
            counts[part, "forms"] += sum(form.tag != "" for form in forms)
            counts[part, "tags"] += sum(form.lexsn != "" for form in forms)
            found = to_sentence(forms).targets
            senses += len(found)
            keys.update(key for target in found for key in target.keys)
        assert Counter(source.partition("/")[0] for source in files) == {"brown1": 103, "brown2": 83, "brownv": 166}
        expected = {
            "brown1": (11_182, 198_796, 106_639),
            "brown2": (8_956, 160_936, 86_000),
            "brownv": (17_038, 316_814, 41_497),
        }
        for part, numbers in expected.items():
            assert tuple(counts[part, what] for what in ("sentences", "forms", "tags")) == numbers
        assert (senses, len(keys)) == (226_036, 33_362)  # the first is also Raganato et al.'s figure
        assert keys <= read_sense_index(WSD / "wordnet3.0-index.sense.xz").numbers.keys()


class TestSets:
    def test_sentences(self, tmp_path: Path) -> None:
        first, second = read_wsd_set(write_set(tmp_path / "tiny", data=SET.replace('lemma="bank"', 'lemma="Bank"')))
        assert first.tokens == ("The", "bank", "'s", "takes", "place")
        assert first.source == "tiny.d000"
        assert first.targets == (
            Target(1, 2, BANK, ("bank%1:14:00::",), "tiny.d000.s000.t000"),
            Target(3, 5, Word("take_place", "verb"), ("take_place%2:30:00::",), "tiny.d000.s000.t001"),
        )
        assert second.tokens == ("café", "kind")
        assert second.targets[0].word == Word("kind", "adj")
        assert second.targets[0].keys == ("kind%5:00:00:good:01", "kind%3:00:00::")

    @pytest.mark.parametrize(
        ("old", "new", "line", "what"),
        [
            ("</text>", "</txt>", 13, "is not XML"),
            ("</sentence>", "", 10, "has a sentence inside a sentence"),
            ('pos="VERB"', 'pos="PRT"', 8, "has an instance with lemma 'take_place' and pos 'PRT' instead of NOUN"),
            ('lemma="bank" ', "", 6, "has an instance with lemma ''"),
            ("s000.t001", "s000.t000", 8, "has instance .* which has no gold keys or came before"),
            (">bank<", "><", 6, "has a word without text"),
            (">bank<", "><wf>bank</wf><", 6, "has <wf> inside a word"),
            ('<sentence id="tiny.d000.s000">\n', "<s>", 4, "has a word outside a sentence"),
            ('<wf lemma="the" pos="DET">The</wf>', "<sentence>", 5, "has a sentence inside a sentence"),
        ],
    )
    def test_bad_data(self, old: str, new: str, line: int, what: str, tmp_path: Path) -> None:
        assert old in SET
        folder = write_set(tmp_path / "tiny", data=SET.replace(old, new, 1))
        with pytest.raises(FormatError, match=rf"tiny\.data\.xml\.xz line {line} {what}"):
            list(read_wsd_set(folder))

    def test_entities_are_refused(self, tmp_path: Path) -> None:
        declared = '?>\n<!DOCTYPE corpus [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]>\n'
        folder = write_set(tmp_path / "tiny", data=SET.replace("?>\n", declared).replace("The", "&b;"))
        with pytest.raises(UnsafeFileError, match=r"line 2 declares a document type: remove"):
            list(read_wsd_set(folder))
        undeclared = write_set(tmp_path / "other", data=SET.replace("The", "&b;"))
        with pytest.raises(FormatError, match="line 5 is not XML"):
            list(read_wsd_set(undeclared))

    @pytest.mark.parametrize("line", ["tiny.d000.s009.t000", "x bank", "", GOLD.splitlines()[0]])
    def test_bad_gold(self, line: str, tmp_path: Path) -> None:
        path = tmp_path / "gold.txt"
        path.write_text(f"{GOLD}{line}\n", encoding="utf-8")
        with pytest.raises(FormatError, match=r"gold\.txt line 4 is .*: a line has"):
            read_gold(path)

    def test_gold_without_instance(self, tmp_path: Path) -> None:
        folder = write_set(tmp_path / "tiny", gold=f"{GOLD}tiny.d000.s009.t000 bank%1:14:00::\n")
        with pytest.raises(FormatError, match=r"has no instance 'tiny\.d000\.s009\.t000', which the gold keys name"):
            list(read_wsd_set(folder))

    def test_missing_files(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"senseval9 has no senseval9\.gold\.key\.txt, plain or \.xz"):
            list(read_wsd_set(tmp_path / "senseval9"))

    @pytest.mark.slow
    @needs_data("wsd")
    def test_framework(self) -> None:
        sentences = {name: list(read_wsd_set(WSD / "eval" / name)) for name in (*SETS, "ALL")}
        counts = {name: (len(found), sum(len(s.targets) for s in found)) for name, found in sentences.items()}
        assert counts == {
            "senseval2": (242, 2_282),
            "senseval3": (352, 1_850),
            "semeval2007": (135, 455),
            "semeval2013": (306, 1_644),
            "semeval2015": (138, 1_022),
            "ALL": (1_173, 7_253),
        }
        joined = [(s.tokens, [t[:-1] for t in s.targets]) for name in SETS for s in sentences[name]]
        assert joined == [(s.tokens, [t[:-1] for t in s.targets]) for s in sentences["ALL"]]
