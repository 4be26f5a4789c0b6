import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from pydantic import ValidationError

from elmokit.config import CharacterInput, ElmoConfig, LstmStack, TokenInput, parse_config, read_config, read_settings
from elmokit.errors import ConfigError
from tests import strategies
from tests.conftest import CONFIGS, KINDS

CHARACTERS = {"kind": "characters", "filters": [[1, 4]]}
MINIMAL: dict[str, Any] = {"input": CHARACTERS}
TABLE = CHARACTERS | {"alphabet": "table", "num_characters": 10}


def to_toml(values: dict[str, Any], prefix: str = "") -> str:
    """Enough of TOML for a config: plain values first, then the tables; null is left out."""
    plain = {key: value for key, value in values.items() if value is not None and not isinstance(value, dict)}
    lines = [f"{key} = {json.dumps(value)}" for key, value in plain.items()]
    for key, value in values.items():
        if isinstance(value, dict) and value:
            lines += [f"[{prefix}{key}]", to_toml(value, f"{prefix}{key}.")]
    return "\n".join(lines)


def fault_of(values: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_config(values, origin="some/file.json")
    text = str(caught.value)
    assert text.startswith("some/file.json is not a valid model config: ")
    assert text.endswith(".") and len(text.splitlines()) == 1 and len(text) < 500
    return text


def test_defaults_are_the_original_model() -> None:
    config = parse_config({"input": {"kind": "characters", "filters": [[1, 32], [2, 32]]}}, origin="x")
    assert isinstance(config.input, CharacterInput)
    assert (config.input.num_characters, config.input.char_dim, config.input.max_characters) == (261, 16, 50)
    assert config.input.num_filters == 64
    assert config.lstm == LstmStack(
        num_layers=2, cell_dim=4096, projection_dim=512, cell_clip=3.0, projection_clip=3.0, skip_connections=True
    )
    assert (config.num_layers, config.output_dim) == (3, 1024)
    assert (config.softmax, config.vocab_size, config.languages, config.foreign) == (False, None, (), {})
    assert config.tokenizer is None


def test_width_without_a_projection() -> None:
    assert LstmStack(cell_dim=7, projection_dim=None).output_dim == 7


@pytest.mark.slow
@given(strategies.configs)
def test_json_round_trip(config: ElmoConfig) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "config.json")
        path.write_text(json.dumps(config.model_dump()), encoding="utf-8")
        assert read_config(path) == config


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "bare"])  # TOML cannot say that a clip is null
def test_toml_round_trip(kind: str, tmp_path: Path) -> None:
    config = CONFIGS[kind].model_copy(update={"languages": ("de", "zh"), "foreign": {"options": {"dropout": 0.1}}})
    path = tmp_path / "config.toml"
    path.write_text(to_toml(config.model_dump(mode="json")), encoding="utf-8")
    assert read_config(path) == config


@pytest.mark.parametrize(
    ("tokenizer", "field"),
    [
        ("elmokit", "tokenizer"),
        ({}, "tokenizer.name"),
        ({"name": ""}, "tokenizer.name"),
        ({"name": "x" * 81}, "tokenizer.name"),
        ({"name": "elmokit", "version": 0}, "tokenizer.version"),
        ({"name": "elmokit", "version": "new"}, "tokenizer.version"),
        ({"name": "elmokit", "rules": 1}, "tokenizer.rules"),
    ],
)
def test_tokenizers_that_are_none(tokenizer: Any, field: str) -> None:
    assert f"{field}: " in fault_of(MINIMAL | {"tokenizer": tokenizer})


def test_configs_are_frozen() -> None:
    config = CONFIGS["softmax"]
    for part, name in ((config, "softmax"), (config.lstm, "cell_dim"), (config.input, "char_dim")):
        with pytest.raises(ValidationError, match="frozen"):
            setattr(part, name, 1)


@pytest.mark.parametrize("section", ["", "input", "lstm"])
def test_unknown_keys_are_refused(section: str) -> None:
    values: dict[str, Any] = {"input": dict(CHARACTERS), "lstm": {}}
    (values[section] if section else values)["surplus"] = 1
    name = f"{section}.surplus" if section else "surplus"
    assert f"{name}: extra inputs are not permitted (given: 1)" in fault_of(values)


@pytest.mark.parametrize("value", [0, -1, 2**24 + 1, 10**30, 1.5, float("nan"), float("inf"), "x", [], {}])
@pytest.mark.parametrize(
    "field",
    [
        "input.char_dim",
        "input.num_characters",
        "input.num_words",
        "input.word_dim",
        "input.num_highway",
        "input.max_characters",
        "lstm.num_layers",
        "lstm.cell_dim",
        "lstm.projection_dim",
        "vocab_size",
    ],
)
def test_sizes(field: str, value: Any) -> None:
    if value == 0 and field in ("input.num_words", "input.word_dim", "input.num_highway"):
        value = -7  # zero of these is a model
    *folder, name = field.split(".")
    values: dict[str, Any] = {"input": dict(TABLE), "lstm": {}}
    (values[folder[0]] if folder else values)[name] = value
    assert name in fault_of(values)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("num_layers", 1001),
        ("cell_clip", 0),
        ("cell_clip", -1.0),
        ("cell_clip", float("inf")),
        ("cell_clip", float("nan")),
        ("projection_clip", 0),
        ("projection_clip", "wide"),
        ("skip_connections", "perhaps"),
        ("skip_connections", None),
        ("forget_bias", float("nan")),
        ("forget_bias", float("inf")),
        ("forget_bias", None),
    ],
)
def test_lstm_fields(field: str, value: Any) -> None:
    assert f"lstm.{field}: " in fault_of(MINIMAL | {"lstm": {field: value}})


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"num_characters": 262}, "input: alphabet 'bytes' has num_characters 261 and no words"),
        ({"num_words": 5, "word_dim": 3}, "input: alphabet 'bytes' has num_characters 261 and no words"),
        ({"alphabet": "table", "num_words": 5}, "num_words (5) and word_dim (0) go together"),
        ({"alphabet": "table", "word_dim": 5}, "num_words (0) and word_dim (5) go together"),
        ({"char_dim": 0}, "num_characters (261), char_dim (0) and filters (1) are all given or all empty"),
        ({"filters": []}, "char_dim (16) and filters (0) are all given or all empty"),
        (
            {"alphabet": "table", "num_characters": 0, "char_dim": 0, "filters": []},
            "filters must name at least one group",
        ),
        (
            {
                "alphabet": "table",
                "num_characters": 0,
                "char_dim": 0,
                "filters": [],
                "num_words": 5,
                "word_dim": 2,
                "num_highway": 1,
            },
            "num_highway (1) needs filters to run over",
        ),
        ({"filters": [[51, 4]]}, "a filter 51 wide exceeds max_characters (50)"),
        ({"filters": [[1, 2**24], [2, 1]]}, "filters are 16777217 in all"),
        ({"filters": [[1, 0]]}, "input.filters.0.1: "),
        ({"filters": [[0, 1]]}, "input.filters.0.0: "),
        ({"filters": [[1, 2, 3]]}, "input.filters.0"),
        ({"filters": "1,32"}, "input.filters: "),
        ({"filters": None}, "input.filters: "),
        ({"activation": "gelu"}, "input.activation: "),
        ({"alphabet": "latin"}, "input.alphabet: "),
        ({"num_highway": 1001}, "input.num_highway: "),
        ({"max_characters": 2}, "input.max_characters: "),
        ({"max_characters": 2**16 + 1}, "input.max_characters: "),
        ({"projected": "maybe"}, "input.projected: "),
        ({"kind": "pixels"}, "input: "),
    ],
)
def test_input_fields(values: dict[str, Any], words: str) -> None:
    assert words in fault_of({"input": CHARACTERS | values})


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "input: field required"),
        ({"input": {}}, "input: unable to extract tag"),
        ({"input": {"kind": "tokens", "char_dim": 3}, "vocab_size": 5}, "input.char_dim: extra inputs"),
        ({"input": {"kind": "tokens"}}, "vocab_size must be given for a softmax or a token embedding"),
        (MINIMAL | {"softmax": True}, "vocab_size must be given for a softmax or a token embedding"),
        (MINIMAL | {"vocab_size": 2}, "vocab_size: "),
        (
            MINIMAL | {"softmax": True, "vocab_size": 9, "tied_softmax": True},
            "tied_softmax needs softmax and input.kind 'tokens'",
        ),
        (
            {"input": {"kind": "tokens"}, "vocab_size": 9, "tied_softmax": True},
            "tied_softmax needs softmax and input.kind 'tokens'",
        ),
        (
            {"input": CHARACTERS | {"projected": False}, "lstm": {"projection_dim": 5}},
            "input.projected is false, so the filters (4) must equal the LSTM's width (5)",
        ),
        (
            {"input": CHARACTERS | {"projected": False}, "lstm": {"projection_dim": None, "cell_dim": 6}},
            "must equal the LSTM's width (6)",
        ),
        (MINIMAL | {"languages": "en"}, "languages: "),
        (MINIMAL | {"languages": [1]}, "languages.0: "),
        (MINIMAL | {"foreign": []}, "foreign: "),
        ([], "input should be a valid dictionary"),
        (None, "input should be a valid dictionary"),
    ],
)
def test_model_fields(values: Any, words: str) -> None:
    assert words in fault_of(values)


def test_every_fault_is_named_with_its_value() -> None:
    text = fault_of({"input": CHARACTERS | {"char_dim": -1}, "lstm": {"cell_dim": "many\nlines"}, "surplus": 1})
    for words in ("input.char_dim: ", "(given: -1)", "lstm.cell_dim: ", "(given: many lines)", "surplus: "):
        assert words in text


def test_token_configs_may_name_their_kind() -> None:
    config = parse_config({"input": {"kind": "tokens"}, "vocab_size": 3}, origin="x")
    assert config.input == TokenInput()


@pytest.mark.parametrize(
    ("name", "data", "match"),
    [
        ("c.json", b"{", "is not JSON"),
        ("c.json", b"a = 1", "is not JSON"),
        ("c.toml", b"{}", "is not TOML"),
        ("c.toml", b"a = ", "is not TOML"),
        ("c.json", b"\xff", "is not JSON"),
        ("c.toml", b"a = '\xff'", "is not TOML"),
        ("c.json", b"[" * 100_000, "is not JSON"),
        ("c.toml", b"a = " + b"[" * 100_000, "is not TOML"),
        ("c.json", b"9" * 5000, "is not JSON"),
        ("c.toml", b"a = " + b"9" * 5000, "is not TOML"),
    ],
)
def test_files_that_are_no_settings(name: str, data: bytes, match: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ConfigError, match=match) as caught:
        read_settings(tmp_path / name)
    text = str(caught.value)
    assert str(tmp_path / name) in text and text.endswith(".") and len(text.splitlines()) == 1


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"c\.json cannot be read: No such file or directory\.$"):
        read_config(tmp_path / "c.json")
    with pytest.raises(ConfigError, match=r"cannot be read: Is a directory\.$"):
        read_config(tmp_path)
