"""Models inside the package: found by name, checked, float16 on disk and float32 in use.

All but `TestMini` put a small random model where packaged models lie; `TestMini` is about the real one.
"""

import json
import re
import shutil
import stat
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub import ModelCard
from safetensors.torch import load_file
from tools.package_model import write_packaged

import elmokit
from elmokit.config import TokenizerConfig
from elmokit.errors import ConfigError, ElmokitError, ElmokitWarning, FormatError, WeightsError
from elmokit.formats import describe, load, packaged, save
from elmokit.formats.packaged import PackagedModel, find_packaged
from elmokit.formats.parts import fingerprint
from elmokit.model.bilm import BiLM
from elmokit.text.files import file_sha256
from tests.contracts.format import Tiny, assert_same_model, listing
from tests.formats.makers import assert_one_sentence
from tests.running import Call, command_runner
from tools import model_card, package_model

HEADER = "---\nlanguage:\n- en\nlicense: apache-2.0\n---\n\n"


def rounded(bilm: BiLM, folder: Path) -> BiLM:
    """The model that float16 makes of another."""
    save(bilm, folder / "rounded", float16=True, overwrite=True)
    return load(folder / "rounded")


def card_of(bilm: BiLM, folder: Path) -> str:
    return f"{HEADER}# A card\n\nFigures of `{fingerprint(rounded(bilm, folder))}`.\n"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of packaged models, and the folder above it to work in."""
    monkeypatch.setattr(packaged, "FOLDER", tmp_path / "models")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "models"


@pytest.fixture
def stand_in(place: Path, tiny_bilm: BiLM) -> PackagedModel:
    """A small random model packaged as mini."""
    return write_packaged(tiny_bilm, name="mini", version="1", card=card_of(tiny_bilm, place.parent))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    return command_runner(tmp_path, monkeypatch, capsys)


def refused(match: str, name: str = "mini") -> ElmokitError:
    with pytest.raises(FormatError, match=match) as caught:
        load(name)
    assert_one_sentence(caught.value, packaged.FOLDER)
    return caught.value


# Weights of half the size


def test_float16_takes_half_the_space_and_comes_back_as_float32(bilm: BiLM, tmp_path: Path) -> None:
    save(bilm, tmp_path / "m", float16=True)
    stored = load_file(tmp_path / "m" / "model.safetensors")
    assert {tensor.dtype for tensor in stored.values()} == {torch.float16}
    loaded = load(tmp_path / "m")
    assert list(loaded.state_dict()) == list(bilm.state_dict())
    for name, tensor in loaded.state_dict().items():
        assert tensor.dtype == torch.float32
        assert torch.equal(tensor, bilm.state_dict()[name].half().float()), name
    assert all(parameter.dtype == torch.float32 for parameter in bilm.parameters())


def test_rounding_twice_is_rounding_once(bilm: BiLM, tmp_path: Path) -> None:
    once = rounded(bilm, tmp_path)
    assert fingerprint(once) != fingerprint(bilm)
    assert_same_model(rounded(once, tmp_path), once)


@pytest.mark.parametrize("format", ["bilm", "nlpl"])
def test_other_formats_have_no_float16(format: Any, bilm: BiLM, tmp_path: Path, run: Call) -> None:
    with pytest.raises(ConfigError, match=f"cannot be written as {format}: choose native") as caught:
        save(bilm, tmp_path / "m.zip", format=format, float16=True)
    assert_one_sentence(caught.value)
    save(bilm, tmp_path / "source")
    done = run(
        "convert",
        str(tmp_path / "source"),
        str(tmp_path / ("m.zip" if format == "nlpl" else "m")),
        "--to",
        format,
        "--float16",
    )
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "native" in done.stderr
    assert not (tmp_path / "m.zip").exists()


@pytest.mark.parametrize("value", [65520.0, -1e6, float("inf"), float("nan")])
def test_numbers_that_float16_does_not_hold_are_refused(value: float, bilm: BiLM, tmp_path: Path) -> None:
    with torch.no_grad():
        next(bilm.forward_lstm.parameters()).view(-1)[3] = value
    with pytest.raises(WeightsError, match=r"tensor forward_lstm\..* holds .*up to 65,504: write .*") as caught:
        save(bilm, tmp_path / "m", float16=True)
    assert_one_sentence(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_the_largest_numbers_of_float16_are_kept(bilm: BiLM, tmp_path: Path) -> None:
    with torch.no_grad():
        next(bilm.forward_lstm.parameters()).view(-1)[:2] = torch.tensor([65504.0, -65504.0])
    values = next(rounded(bilm, tmp_path).forward_lstm.parameters()).view(-1)[:2]
    assert values.tolist() == [65504.0, -65504.0]


def test_convert_writes_float16(bilm: BiLM, tmp_path: Path, run: Call) -> None:
    save(bilm, tmp_path / "source", format="bilm")
    done = run("convert", str(tmp_path / "source"), str(tmp_path / "m"), "--float16")
    assert done.returncode == 0, done.stderr
    assert "float16" in done.stderr
    assert_same_model(load(tmp_path / "m"), rounded(load(tmp_path / "source"), tmp_path))


@pytest.mark.slow
def test_convert_refuses_float16_for_embeddings(bilm: BiLM, tmp_path: Path, run: Call) -> None:
    save(bilm, tmp_path / "m")
    (tmp_path / "in.txt").write_text("the play\n")
    assert (
        run("embed", str(tmp_path / "in.txt"), str(tmp_path / "v.npz"), "--model", str(tmp_path / "m")).returncode == 0
    )
    done = run("convert", str(tmp_path / "v.npz"), str(tmp_path / "w.jsonl"), "--float16")
    assert done.returncode == 1 and "--float16" in done.stderr
    assert not (tmp_path / "w.jsonl").exists()


def test_whoever_may_read_the_config_may_read_the_weights(bilm: BiLM, tmp_path: Path) -> None:
    save(bilm, tmp_path / "m")
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "m").iterdir()}
    assert len(modes) == 1


# Finding and loading


def test_a_packaged_model_is_loaded_by_name(stand_in: PackagedModel, tiny_bilm: BiLM, place: Path) -> None:
    loaded = load("mini")
    assert_same_model(loaded, rounded(tiny_bilm, place.parent))
    assert not any(module.training for module in loaded.modules())
    assert all(parameter.dtype == torch.float32 for parameter in loaded.parameters())
    assert fingerprint(load(" Mini ")) == fingerprint(loaded) == stand_in.fingerprint
    assert elmokit.Embedder.from_pretrained("mini", threads=1).fingerprint == stand_in.fingerprint


def test_an_existing_path_comes_first(stand_in: PackagedModel, tiny: Tiny, place: Path) -> None:
    save(tiny("bare"), place.parent / "mini")
    for call in (load, describe):
        with pytest.warns(ElmokitWarning, match=r"^mini is read from the working .* write \./mini .*models.mini"):
            call("mini")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fingerprint(load("./mini")) == fingerprint(load(Path("mini"))) == fingerprint(tiny("bare"))
        assert fingerprint(load(str(packaged.FOLDER / "mini"))) == stand_in.fingerprint
        assert describe("./mini").version is None
    with pytest.raises(FormatError, match="does not exist"):
        load(Path("mini.no"))


def test_a_path_object_is_never_a_name(stand_in: PackagedModel) -> None:
    with pytest.raises(FormatError, match="mini does not exist"):
        load(Path("mini"))


def test_other_names_are_none() -> None:
    for name in ("", "small", "minimal", "mini/mini", "models/mini", "x" * 100_000, "mini\0"):
        assert find_packaged(name) is None


def test_unknown_names_hear_of_it(place: Path) -> None:
    with pytest.raises(
        FormatError, match=r"named 'nothing': give a path, the packaged mini, a published name"
    ) as caught:
        load("nothing")
    assert_one_sentence(caught.value)
    with pytest.raises(FormatError, match=r"did you mean mini\?"):
        load("minni")


# Damage


def test_a_package_without_the_model(place: Path, run: Call) -> None:
    error = refused(
        r"packaged model mini is not in this installation .*pip install --force-reinstall .*another model\.$"
    )
    (place.parent / "in.txt").write_text("the play\n")
    for words in (
        ["info", "mini"],
        ["embed", "in.txt", "out.npz", "--model", "mini"],
        ["score", "in.txt", "--model", "mini"],
        ["substitutes", "the play", "--position", "0", "--model", "mini"],
        ["perplexity", "mini", "in.txt"],
    ):
        done = run(*words)
        assert (done.returncode, done.stdout, done.stderr) == (1, "", f"elmokit: {error}\n"), words


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "vocab.txt", "README.md"])
def test_a_file_that_is_missing_or_altered(name: str, stand_in: PackagedModel, run: Call) -> None:
    path = stand_in.path / name
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    refused(rf"{re.escape(name)} is not the file that was packaged .*pip install --force-reinstall")
    path.unlink()
    error = refused(rf"{re.escape(name)} of the packaged model mini cannot be read \(No such file.*pip install")
    done = run("info", "mini")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"elmokit: {error}\n")


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: None,
        lambda text: "",
        lambda text: text[:40],
        lambda text: "[]",
        lambda text: "{}",
        lambda text: text.replace("sha256", "sha1"),
        lambda text: text.replace('"mini"', '"maxi"'),
        lambda text: text.replace("model.safetensors", "other.safetensors"),
        lambda text: "\ufeff" + text,
    ],
)
def test_sums_that_are_missing_or_damaged(damage: Callable[[str], str | None], stand_in: PackagedModel) -> None:
    path = stand_in.path / "sums.json"
    text = damage(path.read_text())
    path.unlink()
    if text is not None:
        path.write_text(text)
    refused(r"sums\.json of the packaged model mini is missing or damaged: .*pip install --force-reinstall")


def test_files_of_others_beside_it_do_not_matter(stand_in: PackagedModel) -> None:
    (stand_in.path / ".DS_Store").write_bytes(b"x")
    assert fingerprint(load("mini")) == stand_in.fingerprint


# What info tells


def test_info_prints_version_fingerprint_and_card(stand_in: PackagedModel, run: Call) -> None:
    done = run("info", "mini")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"^version +1$", done.stdout, re.MULTILINE)
    assert re.search(rf"^fingerprint +{stand_in.fingerprint} ", done.stdout, re.MULTILINE)
    assert done.stdout.endswith(f"\n\n# A card\n\nFigures of `{stand_in.fingerprint}`.\n")
    assert "license" not in done.stdout


def test_info_as_json(stand_in: PackagedModel, run: Call) -> None:
    told = json.loads(run("info", "mini", "--json").stdout)
    assert (told["version"], told["fingerprint"]) == ("1", stand_in.fingerprint)
    assert told["card"].startswith("# A card\n")
    assert told["card_metadata"] == {"language": ["en"], "license": "apache-2.0"}
    assert set(told["files"]) == {"config.json", "model.safetensors", "vocab.txt", "README.md", "sums.json"}


def test_other_models_have_neither(bilm: BiLM, tmp_path: Path, run: Call) -> None:
    save(bilm, tmp_path / "m")
    told = json.loads(run("info", str(tmp_path / "m"), "--json").stdout)
    assert (told["version"], told["card"], told["card_metadata"]) == (None, None, {})
    assert not re.search("^version", run("info", str(tmp_path / "m")).stdout, re.MULTILINE)


# Commands about text


def test_commands_take_it_by_name(stand_in: PackagedModel, place: Path, run: Call) -> None:
    (place.parent / "in.txt").write_text("the play was .\n")
    for words in (
        ["embed", "in.txt", "-"],
        ["score", "in.txt", "--json"],
        ["substitutes", "the play was .", "--position", "1", "--json"],
    ):
        by_name = run(*words, "--model", "mini")
        assert by_name.returncode == 0, by_name.stderr
        assert by_name.stdout
        named = run(*words, "--model", str(stand_in.path)).stdout
        assert by_name.stdout.replace('"mini"', json.dumps(str(stand_in.path))) == named


# Packaging


def test_what_the_folder_holds(stand_in: PackagedModel, place: Path) -> None:
    files = ["README.md", "config.json", "model.safetensors", "vocab.txt"]
    assert sorted(path.name for path in stand_in.path.iterdir()) == sorted([*files, "sums.json"])
    assert [path.name for path in place.iterdir()] == ["mini"]
    sums = json.loads((stand_in.path / "sums.json").read_text())
    assert sums == {
        "name": "mini",
        "version": "1",
        "fingerprint": stand_in.fingerprint,
        "sha256": {name: file_sha256(stand_in.path / name) for name in files},
    }
    assert find_packaged("mini") == stand_in


def test_packaging_again_gives_the_same_bytes(stand_in: PackagedModel, place: Path) -> None:
    before = {path.name: path.read_bytes() for path in stand_in.path.iterdir()}
    card = (stand_in.path / "README.md").read_text()
    with pytest.raises(FormatError, match="already holds files"):
        write_packaged(load("mini"), name="mini", version="1", card=card)
    assert write_packaged(load("mini"), name="mini", version="1", card=card, overwrite=True) == stand_in
    assert {path.name: path.read_bytes() for path in stand_in.path.iterdir()} == before


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"name": "maxi"}, "'maxi' is not the name of a packaged model: choose mini"),
        ({"version": "one"}, "version 'one' is not a version number"),
        ({"card": "# A card\n"}, "the card does not name the fingerprint [0-9a-f]{64} of the float16 weights"),
    ],
)
def test_what_is_not_packaged(changes: dict[str, str], match: str, stand_in: PackagedModel, place: Path) -> None:
    before = listing(place / "mini")
    card = (stand_in.path / "README.md").read_text()
    with pytest.raises(ElmokitError, match=match) as caught:
        given: dict[str, Any] = {"name": "mini", "version": "2", "card": card, "overwrite": True} | changes
        write_packaged(load("mini"), **given)
    assert_one_sentence(caught.value)
    assert listing(place / "mini") == before
    assert [path.name for path in place.iterdir()] == ["mini"]


def test_a_model_must_predict_words(tiny: Tiny, place: Path) -> None:
    with pytest.raises(ConfigError, match="has no softmax"):
        write_packaged(tiny("characters"), name="mini", version="1", card="")
    assert not (place / "mini").exists()


def test_a_model_must_be_small(tiny_bilm: BiLM, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package_model, "MAX_BYTES", 2000)
    with pytest.raises(FormatError, match=r"takes .* MB, but a packaged one may take 0 MB"):
        write_packaged(tiny_bilm, name="mini", version="1", card=card_of(tiny_bilm, place.parent))
    assert list(place.iterdir()) == []


# The maintainers' commands: a card from results, a package from a model and its card


def results_of(measured: str) -> dict[str, Any]:
    return {
        "name": "mini",
        "version": "7",
        "fingerprint": measured,
        "data": {
            "wikipedia_words": 32_367_989,
            "wikipedia_articles": 66_629,
            "book_words": 14_981_526,
            "books": 258,
            "tokens": 55_543_210,
        },
        "training": {
            "preset": "mini",
            "tokens_seen": 111_000_000,
            "hours": 7.25,
            "hardware": "two CPU cores, no GPU",
            "elmokit": "0.1.0",
            "command": "elmokit pretrain mini",
        },
        "perplexity": {
            "Wikipedia": {"forward": 61.04, "backward": 60.0, "average": 60.52, "unknown": 0.0437},
            "books": {"forward": 80, "backward": 81, "average": 80.5, "unknown": 0.03},
        },
        "probes": [
            {"name": "POS", "dataset": "UD: English", "metric": "accuracy", "values": {"layer 0": 0.9, "v1.5": 0.95}}
        ],
    }


@pytest.fixture
def half(tiny_bilm: BiLM, place: Path) -> Path:
    """The model as it will ship, in a folder of its own."""
    save(tiny_bilm, place.parent / "half", float16=True)
    return place.parent / "half"


def test_from_results_to_a_packaged_model(half: Path, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place.parent / "results.json").write_text(json.dumps(results_of(fingerprint(load(half)))))
    model_card.main(["half", "results.json", "card.md"])
    text = Path("card.md").read_text(encoding="utf-8")
    for part in (
        "Version 7 ",
        "32.4M",
        "66,629",
        "15.0M",
        "258",
        "55.5M",
        "111.0M",
        "7.2 hours",
        "61.0",
        "4.4%",
        "0.950",
        "v1.5",
    ):
        assert part in text, part
    assert "$" not in text

    package_model.main(["half", "--name", "mini", "--version", "7", "--card", "card.md"])
    assert "version 7" in capsys.readouterr().out
    assert fingerprint(load("mini")) == fingerprint(load(half))
    assert (place / "mini" / "README.md").read_text(encoding="utf-8") == text

    header = describe("mini").card_metadata
    assert header["license"] == "apache-2.0" and header["pipeline_tag"] == "feature-extraction"
    assert set(header) >= {"language", "library_name", "tags", "datasets", "model-index"}
    data: Any = ModelCard(text).data  # as the Hub's own reader understands it
    evaluations = data.eval_results
    assert evaluations is not None
    assert [(one.metric_type, one.metric_value) for one in evaluations] == [
        ("perplexity", 60.52),
        ("perplexity", 80.5),
        ("accuracy", 0.9),
        ("accuracy", 0.95),
    ]
    run_code_of(describe("mini").card)


def run_code_of(card: str | None) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", card or "", re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        names: dict[str, Any] = {}
        exec(block, names)
        assert names["bilm"].config.softmax
        assert len(names["layers"]) == len(names["sentences"]) == 2


def leaves(values: Any, *keys: Any) -> list[tuple[Any, ...]]:
    if not isinstance(values, dict | list):
        return [keys]
    members = values.items() if isinstance(values, dict) else enumerate(values)
    return [leaf for key, value in members for leaf in leaves(value, *keys, key)]


@pytest.mark.slow
def test_a_missing_figure_makes_no_card(half: Path) -> None:
    measured = fingerprint(load(half))
    places = leaves(results_of(measured))
    assert len(places) > 20
    for keys in places:
        for change in ("missing", None, ""):
            if change == "missing" and "values" in keys:
                continue  # one label less is another set of figures, not a missing one
            results = results_of(measured)
            parent: Any = results
            for key in keys[:-1]:
                parent = parent[key]
            if change == "missing":
                del parent[keys[-1]]
            else:
                parent[keys[-1]] = change
            Path("results.json").write_text(json.dumps(results))
            with pytest.raises(ConfigError, match=re.escape(".".join(map(str, keys)))) as caught:
                model_card.write_card("half", Path("results.json"), Path("card.md"))
            assert_one_sentence(caught.value)
            assert not Path("card.md").exists()


@pytest.mark.parametrize("key", ["perplexity", "probes"])
def test_a_card_needs_some_figures(key: str, half: Path) -> None:
    Path("results.json").write_text(json.dumps(results_of(fingerprint(load(half))) | {key: {}}))
    with pytest.raises(ConfigError, match=f"{key} is empty"):
        model_card.write_card("half", Path("results.json"), Path("card.md"))


def test_results_of_another_model_make_no_card(half: Path, tiny_bilm: BiLM) -> None:
    Path("results.json").write_text(json.dumps(results_of(fingerprint(tiny_bilm))))
    with pytest.raises(
        SystemExit, match=r"model_card: results\.json was measured on the model .*will ship\.$"
    ) as caught:
        model_card.main(["half", "results.json", "card.md"])
    assert isinstance(caught.value.code, str)  # printed on stderr, exit code 1
    assert not Path("card.md").exists()


def test_the_commands_fail_in_one_sentence(half: Path, place: Path) -> None:
    for text in ("{", "[]"):
        Path("results.json").write_text(text)
        with pytest.raises(SystemExit, match="model_card: "):
            model_card.main(["half", "results.json", "card.md"])
    with pytest.raises(SystemExit, match=r"package_model: .*card\.md"):
        package_model.main(["half", "--name", "mini", "--version", "1", "--card", "card.md"])
    with pytest.raises(SystemExit) as caught:
        model_card.main(["half"])
    assert caught.value.code == 2
    assert not place.exists()


# The real one


class TestMini:
    """The model that ships."""

    def test_it_is_small_and_whole(self) -> None:
        model = find_packaged("mini")
        assert model is not None
        assert sum(path.stat().st_size for path in model.path.iterdir()) <= package_model.MAX_BYTES
        stored = load_file(model.path / "model.safetensors")
        assert {tensor.dtype for tensor in stored.values()} == {torch.float16}

    @pytest.mark.slow
    def test_it_is_always_the_same_model(self) -> None:
        told = describe("mini")
        model = find_packaged("mini")
        assert model is not None
        assert told.fingerprint == fingerprint(load("mini")) == model.fingerprint
        assert told.version == model.version
        assert told.softmax and told.languages == ("en",)
        assert told.config.tokenizer == TokenizerConfig(name="elmokit", version=1)
        assert f"Version {model.version} " in model.card and model.fingerprint in model.card

    @pytest.mark.slow
    def test_its_card_is_one_for_the_hub_and_its_code_runs(self) -> None:
        model = find_packaged("mini")
        assert model is not None
        assert model.card_metadata["license"] == "apache-2.0"
        data: Any = ModelCard((model.path / "README.md").read_text(encoding="utf-8")).data
        assert data.eval_results
        run_code_of(model.card)

    def test_it_has_learned_something(self) -> None:
        from elmokit.scoring.substitutes import find_substitutes

        bilm = load("mini")
        words = [one.word for one in find_substitutes(bilm, "He went to the house .".split(), 3, number=10)]
        assert "the" in words

    def test_an_altered_copy_is_refused(self, place: Path) -> None:
        shutil.copytree(Path(elmokit.__file__).parent / "models" / "mini", place / "mini")
        with (place / "mini" / "model.safetensors").open("rb+") as file:
            file.seek(-1, 2)
            file.write(b"\x7f")
        refused(r"model\.safetensors is not the file that was packaged")
