"""The card of an exported model, its README.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

NOTHING: Mapping[str, Any] = {}


def model_card(
    name: str,
    base: str | None,
    origin: Mapping[str, Any],
    settings: Mapping[str, Any] = NOTHING,
    prompt: str | None = None,
    command: str | None = None,
    measured: Mapping[str, Mapping[str, Any]] = NOTHING,
) -> str:
    """Return the text of README.md; an empty section is left out.

    `base` is a name of the Hub, if the policy grew from one; `origin` has run, hashes and seeds,
    `settings` the method's, `command` trained it. `measured` has by benchmark the figures that
    its run has recorded.
    """
    head: dict[str, Any] = {"library_name": "transformers", "tags": ["sage", "rlvr"]}
    if base is not None:
        head["base_model"] = base
    parts = (
        f"---\n{yaml.safe_dump(head, sort_keys=False)}---",
        f"# {_inline(name)}",
        _table("What it is", origin),
        _table("Settings", settings),
        _fenced("Trained by", command),
        _measured(measured),
        _fenced("Prompt", prompt),
    )
    return "\n\n".join(filter(None, parts)) + "\n"


def _measured(measured: Mapping[str, Mapping[str, Any]]) -> str:
    if not measured:
        return "## pass@k\n\nNot measured."
    lines = ["## pass@k", ""]
    for name, figures in measured.items():
        curve = {key: value for key, value in figures.items() if key.startswith("pass@")}
        how = (f"{key} {value}" for key, value in figures.items() if key not in (*curve, "content"))
        lines += [f"{_inline(name)}: {_inline(', '.join(how))}", "", "| k | pass@k |", "|---|---|"]
        lines += [f"| {key.removeprefix('pass@')} | {value:.4f} |" for key, value in curve.items()]
        lines.append("")
    return "\n".join(lines).rstrip()


def _table(title: str, values: Mapping[str, Any]) -> str:
    rows = [f"| {_inline(key)} | {_inline(value)} |" for key, value in values.items() if value]
    return "\n".join([f"## {title}", "", "| | |", "|---|---|", *rows]) if rows else ""


def _fenced(title: str, text: str | None) -> str:
    """Return a text as a block of code, whose fence is longer than any in the text."""
    if not text:
        return ""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"## {title}\n\n{fence}\n{text}\n{fence}"


def _inline(value: object) -> str:
    """Return a value in one line that ends no cell and opens no element."""
    text = " ".join(str(value).split())
    return text.replace("|", "\\|").replace("<", "&lt;")
