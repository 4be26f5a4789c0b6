"""Numbers with their nouns: "1 sentence", "2 sentences", "12,345 files"."""


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun, in the plural unless the number is 1."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
