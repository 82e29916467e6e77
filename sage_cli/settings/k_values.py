"""Read values of k such as 1..256, 1,8,64 or 1..256:pow2."""

from __future__ import annotations

import re

from sage_cli.errors import ConfigurationError

_TOKEN = re.compile(r"(?P<first>\d+)(\.\.(?P<last>\d+)(:(?P<step>\w+))?)?")
_LARGEST_K = 1_000_000
_GRAMMAR = "write ks as 1..256, 1,8,64 or 1..256:pow2"


def parse_ks(text: str, n: int | None = None, option: str = "--n") -> tuple[int, ...]:
    """Return the ks that `text` names, ascending and without repetition.

    `a..b` is every k from a to b, `a..b:pow2` the powers of two among them; commas stand between
    ks and ranges. With `n`, the number of samples per problem that `option` sets, k > n is refused.
    Raises ConfigurationError naming the token.
    """
    ks: set[int] = set()
    for token in text.split(","):
        ks.update(_expand(token.strip(), n, option))
    return tuple(sorted(ks))


def capped_ks(text: str, n: int) -> str:
    """`text` with every k and every range's end above `n` brought down to it: 1..256 to 1..64.

    What is not a k or range stays as it is, for `parse_ks` to refuse.
    """
    return ",".join(_capped(token.strip(), n) for token in text.split(","))


def _capped(token: str, n: int) -> str:
    first, *more = token.split("..", 1)
    last, *step = more[0].split(":", 1) if more else (first,)
    if not (first.isdecimal() and last.isdecimal()) or int(last) <= n:
        return token
    if int(first) >= n or (step and 1 << n.bit_length() - 1 < int(first)):
        return str(n)
    return ":".join([f"{first}..{n}", *step])


def _expand(token: str, n: int | None, option: str) -> list[int]:
    match = _TOKEN.fullmatch(token)
    if match is None:
        raise ConfigurationError(f"'{token}' is not a k or a range of ks", _GRAMMAR)
    first = int(match["first"])
    last = first if match["last"] is None else int(match["last"])
    if match["step"] not in (None, "pow2"):
        raise ConfigurationError(
            f"'{token}': the only step is pow2, not '{match['step']}'", _GRAMMAR
        )
    if first < 1:
        raise ConfigurationError(f"'{token}': k starts at 1", _GRAMMAR)
    if last < first:
        raise ConfigurationError(f"'{token}': the range ends before it begins", _GRAMMAR)
    if n is not None and last > n:
        raise ConfigurationError(
            f"'{token}': pass@{last} is undefined with {n} samples per problem (k > n)",
            f"use k up to {n}, or sample more: {option} {last}",
        )
    if last > _LARGEST_K:
        raise ConfigurationError(f"'{token}': k is at most {_LARGEST_K:,}", _GRAMMAR)
    if match["step"] is None:
        return list(range(first, last + 1))
    powers = [1 << bit for bit in range(last.bit_length()) if first <= 1 << bit <= last]
    if not powers:
        raise ConfigurationError(f"'{token}': this range contains no power of two", _GRAMMAR)
    return powers
