"""Numbers with their nouns or verbs."""


def counted(n: int, noun: str, plural: str | None = None) -> str:
    """Return `1 sample` or `2,000 samples`; `plural` where it is not the noun with an s."""
    return f"{n:,} {noun if n == 1 else plural or f'{noun}s'}"


def agreeing(n: int, singular: str, plural: str) -> str:
    """Return the form of a verb that goes with `n` things, such as `is` or `are`."""
    return singular if n == 1 else plural
