"""Thoughts between <think> and </think>: no answer stands in one, and no stop text ends one."""

from __future__ import annotations

OPEN, CLOSE = "<think>", "</think>"


def unmarked(text: str) -> str:
    """Return a worked solution without the marks of its thought."""
    return text.replace(OPEN, "").replace(CLOSE, "").strip()


def is_open(text: str) -> bool:
    """Return True if `text` ends inside a thought."""
    return text.rfind(OPEN) > text.rfind(CLOSE)


def stop_end(text: str, stop: str | None) -> int | None:
    """Return the end of the first `stop` outside thoughts; None without one."""
    at = -1 if stop is None else text.find(stop)
    while stop is not None and at >= 0:
        if not is_open(text[:at]):
            return at + len(stop)
        closed = text.find(CLOSE, at)
        at = text.find(stop, closed) if closed >= 0 else -1
    return None
