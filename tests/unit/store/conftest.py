"""A run to be mirrored, and locks that are waited for only a moment."""

import pytest
from mirrored_run import run

from sage_cli.store import locks

__all__ = ["run"]


@pytest.fixture(autouse=True)
def _moments(monkeypatch):
    """Let nobody here wait as long as on a busy file server."""
    monkeypatch.setattr(locks, "PATIENCE_S", 0.05)
    monkeypatch.setattr(locks, "_SETTLE_S", 0.02)
