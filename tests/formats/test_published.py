import re
from pathlib import Path

import pytest

from elmokit.formats.published import (
    PUBLISHED,
    PublishedModel,
    RemoteFile,
    find_published,
    published_names,
    suggest,
)


def test_published_table_is_complete() -> None:
    names = published_names()
    assert names[:4] == ["small", "medium", "original", "original-5.5b"]
    assert sum(name.startswith("aligned/") for name in names) == 7
    many = [model for name, model in PUBLISHED.items() if name.startswith("many-langs/")]
    numbers = sorted(int(model.files[0].name.removesuffix(".zip")) for model in many)
    assert numbers == list(range(136, 180))
    assert all(model.is_zip and model.languages == (model.name.partition("/")[2],) for model in many)
    assert len(names) == 4 + 7 + 44
    for model in PUBLISHED.values():
        assert all(file.sha256 is None and file.name for file in model.files)


@pytest.mark.parametrize(
    ("name", "urls"),
    [
        (
            "small",
            [
                "https://allennlp.s3.amazonaws.com/models/elmo/2x1024_128_2048cnn_1xhighway/"
                f"elmo_2x1024_128_2048cnn_1xhighway_{end}"
                for end in ("options.json", "weights.hdf5")
            ],
        ),
        (
            "Original-5.5B",
            [
                "https://allennlp.s3.amazonaws.com/models/elmo/2x4096_512_2048cnn_2xhighway_5.5B/"
                f"elmo_2x4096_512_2048cnn_2xhighway_5.5B_{end}"
                for end in ("options.json", "weights.hdf5")
            ],
        ),
        (
            "aligned/pt",
            [
                f"https://s3-us-west-2.amazonaws.com/allennlp/models/multilingual_elmo/{name}"
                for name in ("options262.json", "pt_weights.hdf5")
            ],
        ),
        ("many-langs/de", ["http://vectors.nlpl.eu/repository/11/142.zip"]),
        ("many-langs/german", ["http://vectors.nlpl.eu/repository/11/142.zip"]),
        ("many-langs/nl", ["http://vectors.nlpl.eu/repository/11/164.zip"]),
        ("many-langs/Norwegian Bokmål", ["http://vectors.nlpl.eu/repository/11/165.zip"]),
        ("many-langs/old_church_slavonic", ["http://vectors.nlpl.eu/repository/11/140.zip"]),
        ("many-langs/slovenian", ["http://vectors.nlpl.eu/repository/11/172.zip"]),
        ("nlpl/217", ["http://vectors.nlpl.eu/repository/20/217.zip"]),
        ("nlpl/0217", ["http://vectors.nlpl.eu/repository/20/217.zip"]),
    ],
)
def test_find_published(name: str, urls: list[str]) -> None:
    model = find_published(name)
    assert model is not None
    assert [file.url for file in model.files] == urls


def test_find_published_knows_what_it_does_not_know() -> None:
    for name in ("", "mini", "many-langs", "many-langs/xx", "nlpl/", "nlpl/12a", "nlpl/²", "somebody/elmo"):
        assert find_published(name) is None, name


def test_suggestions() -> None:
    assert suggest("smal") == ["small"]
    assert suggest("orignal")[0] == "original"
    assert suggest("many-langs/gernan")[0] == "many-langs/de"
    assert "many-langs/sv" in suggest("manylangs/sv")
    assert suggest("entirely different") == []


def test_the_name_of_a_file_is_that_of_its_url() -> None:
    model = PublishedModel("x", (RemoteFile("https://h/a/b.zip?download=1"),))
    assert model.files[0].name == "b.zip"
    assert model.is_zip


def test_every_name_is_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"`((?:small|medium|original(?:-5\.5b)?|aligned/[a-z]+|many-langs/[a-z]{2,3}))`", text))
    assert documented == set(published_names())
