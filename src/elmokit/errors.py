"""Every error that elmokit raises on purpose.

    ElmokitError
    ├── ConfigError         a setting is missing, unknown or contradicts another
    ├── InputError          text, tokens or ids that cannot be used as given
    │   └── VocabularyError     a vocabulary file without its special tokens in place
    ├── FormatError         a file that is not what it should be
    │   ├── WeightsError        tensors missing, truncated, or of another shape than the options say
    │   └── UnsafeFileError     a file that would write elsewhere, expand without bound or run code
    └── DownloadError       a published model that could not be fetched or verified

An error says what was given, what is accepted and what to do, in one sentence; the command line prints it and
exits with 1. `ElmokitWarning` marks what was handled but the user should know.
"""


class ElmokitError(Exception):
    """Base of all errors raised on purpose; catching it catches every foreseen failure."""


class ConfigError(ElmokitError):
    """A setting is missing, unknown or contradicts another."""


class InputError(ElmokitError):
    """Text, tokens or ids that cannot be used as given."""


class VocabularyError(InputError):
    """A vocabulary whose special tokens are missing, repeated or out of place."""


class FormatError(ElmokitError):
    """A file that is not what its name or location suggests."""


class WeightsError(FormatError):
    """Tensors that are missing, truncated, or of another shape than the options say."""


class UnsafeFileError(FormatError):
    """A file that would write outside its folder, expand without bound, or run code."""


class DownloadError(ElmokitError):
    """A published model that could not be fetched or did not verify."""


class ElmokitWarning(UserWarning):
    """Something was understood and handled, but the user should know."""


def closed_error(path: object) -> ElmokitError:
    """The error for a file that is read after `close()`; the file itself is not damaged."""
    return ElmokitError(f"{path} is closed: read from it before close() or inside its with block, or open it again.")


def brief(error: Exception) -> str:
    """The beginning of an error's text, on one line, to quote in a message."""
    return " ".join(str(error).split())[:150]
