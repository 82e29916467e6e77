"""The project's address: one line of pyproject.toml."""

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def test_the_site_takes_the_address_from_the_one_line_that_has_it(monkeypatch):
    pytest.importorskip("latex2mathml")
    pytest.importorskip("mkdocs")
    spec = importlib.util.spec_from_file_location("hooks", ROOT / "docs/hooks.py")
    hooks = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "hooks", hooks)
    spec.loader.exec_module(hooks)
    address = hooks.address()
    page = hooks.on_page_markdown("```\ngit clone ADDRESS sage\n```\n")
    assert address.startswith("https://")
    assert f"git clone {address} sage" in page
