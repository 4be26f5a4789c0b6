"""How numbers are said: "1 sentence", "2 sentences", "12,345 files"."""


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun, which is in the plural unless it is 1 thing."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
