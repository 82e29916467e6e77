"""Fixtures that every test may ask for."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real data beside the checkout; tests that read it skip where it is absent."""
    for parent in Path(__file__).resolve().parents:
        folder = parent / "shared"
        if (folder / "data").is_dir():
            return folder
    pytest.skip("the folder 'shared' with real benchmark rows is not beside this checkout")
