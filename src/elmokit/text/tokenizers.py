"""Which tokenizer split a text, and warnings where a model was trained with another one.

Raw text is always tokenized by the one version of the rules in `elmokit.text.tokenize`. There is no warning about text
that was tokenized elsewhere, because its tokenizer is unknown, nor about models that do not name a tokenizer.
"""

import warnings
from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from elmokit._version import __version__
from elmokit.config import TokenizerConfig
from elmokit.errors import ConfigError, ElmokitWarning
from elmokit.text.input_kind import InputKind, has_raw_text, read_shard_summary
from elmokit.text.tokenize import TOKENIZER_VERSION

_NAME = "elmokit"
OWN = TokenizerConfig(name=_NAME, version=TOKENIZER_VERSION)
"""The tokenizer for raw text."""
EXTERNAL = TokenizerConfig(name="external")
"""The tokenizer of text that was given as tokens."""
_FIRST = TokenizerConfig(name=_NAME, version=1)
"""The tokenizer of all shards that were written before tokenizers were recorded."""
_TOKENS = "give tokens that were made as in its training (--input tokens)"


def text_tokenizer(paths: Iterable[Path], input: InputKind) -> TokenizerConfig | None:
    """The tokenizer of the text of files, which for shards is the one they were written with; None if they differ."""
    found = {_folder_tokenizer(folder, input) for folder in {path.parent for path in paths}}
    return found.pop() if len(found) == 1 else None


def _folder_tokenizer(folder: Path, input: InputKind) -> TokenizerConfig | None:
    summary = read_shard_summary(folder)
    if summary is None:
        return OWN if input == "text" else EXTERNAL
    if "tokenizer" not in summary:
        return _FIRST if summary.get("input") == "text" else EXTERNAL
    try:
        return TokenizerConfig.model_validate(summary["tokenizer"])
    except ValidationError:
        return None


def check_raw_text(trained: TokenizerConfig | None, *, accepts_tokens: bool = True) -> None:
    """Warn if raw text is tokenized differently from a model's training text.

    Args:
        trained: tokenizer of the training text; None if unknown, and then there is no warning.
        accepts_tokens: whether the user can give tokens instead.

    Raises:
        ConfigError: if this version of elmokit does not know the tokenizer.
    """
    if trained is None:
        return
    if trained.name not in (OWN.name, EXTERNAL.name):
        remedies = ["install a newer elmokit", *([_TOKENS] if accepts_tokens else [])]
        raise ConfigError(
            f"this model was trained with {name_tokenizer(trained)}, which elmokit {__version__} does not have, so it "
            f"cannot read raw text here: {', or '.join(remedies)}."
        )
    if not _differ(trained, OWN):
        return
    is_newer = trained.name == OWN.name and (trained.version or 0) > (OWN.version or 0)
    remedies = [
        *(["install a newer elmokit"] if is_newer else []),
        *([_TOKENS] if accepts_tokens else []),
        *([] if is_newer else ["train a model on raw text with this elmokit"]),
    ]
    warnings.warn(
        f"this model was trained with {name_tokenizer(trained)}, but raw text is tokenized with {name_tokenizer(OWN)}, "
        f"so some words may be cut differently: {', or '.join(remedies)}.",
        ElmokitWarning,
        stacklevel=3,
    )


def check_training_text(trained: TokenizerConfig | None, paths: Iterable[Path], input: InputKind) -> None:
    """Warn in the same way about text to continue training on, which may be shards that elmokit tokenized."""
    paths = list(paths)
    if has_raw_text(paths, input):
        check_raw_text(trained)
        return
    used = text_tokenizer(paths, input)
    if trained is not None and used is not None and used.name == OWN.name and _differ(trained, used):
        warnings.warn(
            f"this model was trained with {name_tokenizer(trained)}, but the shards were tokenized with "
            f"{name_tokenizer(used)}, so some words may be cut differently: give text that was tokenized as in its "
            "training.",
            ElmokitWarning,
            stacklevel=2,
        )


def describe_tokenizer(trained: TokenizerConfig | None) -> str:
    """The tokenizer of a model's training text, for a table."""
    if trained is None:
        return "not stated"
    if trained.name == EXTERNAL.name:
        return "none of elmokit's: the training text came as tokens"
    version = "" if trained.version is None else f", version {trained.version}"
    if trained.name != OWN.name:
        return f"{trained.name}{version} (not in this elmokit)"
    return f"{trained.name}{version}" + (f" (here: version {OWN.version})" if _differ(trained, OWN) else "")


def name_tokenizer(tokenizer: TokenizerConfig) -> str:
    """The name of a tokenizer in a message."""
    if tokenizer.name == EXTERNAL.name:
        return "tokens of another tokenizer"
    version = "" if tokenizer.version is None else f"version {tokenizer.version} of "
    return version + ("elmokit's tokenizer" if tokenizer.name == OWN.name else f"the tokenizer {tokenizer.name!r}")


def _differ(one: TokenizerConfig, other: TokenizerConfig) -> bool:
    """Whether two tokenizers are known to differ; an unknown version matches any."""
    return one.name != other.name or (one.version != other.version and None not in (one.version, other.version))
