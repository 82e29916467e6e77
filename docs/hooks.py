"""Make parts of the site: JSON schemas below reference/schemas/, and formulas as MathML."""

from __future__ import annotations

import re

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from sage_cli.cli.terminal.schemas import ANSWERS, schema
from sage_cli.store.json_files import json_text


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a file for each command that prints JSON."""
    for name in ANSWERS:
        path = f"reference/schemas/{name.replace(' ', '-')}.json"
        files.append(File.generated(config, path, content=json_text(schema(name))))
    return files


CODE = r"(?P<code>```.*?```|`[^`\n]*`)"
FORMULA = r"\$\$(?P<block>.+?)\$\$|(?<![\w$])\$(?P<inline>[^$\n`]*[\\_^{][^$\n`]*|\w)\$(?![\w$])"
PARTS = re.compile(f"{CODE}|{FORMULA}", re.DOTALL)
"""Code, which is left as it is, and formulas: between $$, or between $ with a sign of LaTeX."""


def on_page_markdown(markdown: str, **_: object) -> str:
    """Return a page's text with its formulas as MathML, which browsers draw without a script."""
    return PARTS.sub(_drawn, markdown)


def _drawn(found: re.Match[str]) -> str:
    if found["code"] is not None:
        return found[0]
    if found["block"] is not None:
        return convert(found["block"].strip(), display="block")
    return convert(found["inline"])
