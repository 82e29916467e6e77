"""Numbers with their nouns."""


def counted(n: int, noun: str, plural: str | None = None) -> str:
    """Return `1 sample` or `2,000 samples`; `plural` where it is not the noun with an s."""
    return f"{n:,} {noun if n == 1 else plural or f'{noun}s'}"
