"""Guides q(x, y) that shape the anchor: one file a guide, with its settings and its formula."""

from sage_cli.guides.branch import BranchGuide
from sage_cli.guides.guide import Guide, Signals
from sage_cli.guides.none import NoGuide
from sage_cli.guides.random import RandomGuide
from sage_cli.guides.rapo import RapoGuide
from sage_cli.guides.shuffled import ShuffledGuide
from sage_cli.guides.token import TokenGuide

__all__ = [
    "BranchGuide",
    "Guide",
    "NoGuide",
    "RandomGuide",
    "RapoGuide",
    "ShuffledGuide",
    "Signals",
    "TokenGuide",
]
