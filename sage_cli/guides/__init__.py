"""Guides q(x, y) that shape the anchor, and their schedules: pure functions on tensors."""

from sage_cli.guides.branch import BranchGuide
from sage_cli.guides.build import build_guide
from sage_cli.guides.guide import Guide, NoGuide
from sage_cli.guides.random import RandomGuide
from sage_cli.guides.schedule import CosineCycles
from sage_cli.guides.signals import Signals
from sage_cli.guides.statistics import entropy_percentiles, guide_statistics
from sage_cli.guides.token import TokenGuide

__all__ = [
    "BranchGuide",
    "CosineCycles",
    "Guide",
    "NoGuide",
    "RandomGuide",
    "Signals",
    "TokenGuide",
    "build_guide",
    "entropy_percentiles",
    "guide_statistics",
]
