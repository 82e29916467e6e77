"""Make parts of the site: its address, and formulas as MathML."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig

ADDRESS = re.compile(r"\bADDRESS\b")
"""The word that stands for the project's address, which pyproject.toml has."""


def address() -> str:
    """Return the project's address."""
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    return str(tomllib.loads(text)["project"]["urls"]["Repository"])


def on_config(config: MkDocsConfig) -> None:
    """Link every page to the project's address."""
    config.repo_url, config.repo_name = address(), "sage"


CODE = r"(?P<code>```.*?```|`[^`\n]*`)"
FORMULA = r"\$\$(?P<block>.+?)\$\$|(?<![\w$])\$(?P<inline>[^$\n`]*[\\_^{][^$\n`]*|\w)\$(?![\w$])"
PARTS = re.compile(f"{CODE}|{FORMULA}", re.DOTALL)
"""Code, which is left as it is, and formulas: between $$, or between $ with a sign of LaTeX."""


def on_page_markdown(markdown: str, **_: object) -> str:
    """Return a page's text with the address, and formulas as MathML, drawn without a script."""
    return PARTS.sub(_drawn, ADDRESS.sub(address(), markdown))


def _drawn(found: re.Match[str]) -> str:
    if found["code"] is not None:
        return found[0]
    if found["block"] is not None:
        return f'<div class="formula">{convert(found["block"].strip(), display="block")}</div>'
    return convert(found["inline"])
