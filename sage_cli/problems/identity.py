"""Interim."""

from __future__ import annotations

from typing import Any

from sage_cli.config.data import DataSection
from sage_cli.config.training import SftSection


def demonstrations_identity(data: DataSection, sft: SftSection) -> dict[str, Any]:
    """Interim."""
    return {"data": data.determinants(), "count": sft.steps}


def problems_identity(data: DataSection) -> dict[str, Any]:
    """Interim."""
    return data.determinants()
