"""Give the documentation's site each command's JSON schema, below reference/schemas/."""

from __future__ import annotations

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
