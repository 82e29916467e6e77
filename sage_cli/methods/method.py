"""The bases of methods, by the names under which a package of your own imports them."""

from __future__ import annotations

from sage_cli.methods.clipping import CLIPPING, Clipping, Loss
from sage_cli.methods.loop import Method, OtherSections, StepSizes, batch_of
from sage_cli.methods.online import OnlineMethod
from sage_cli.methods.policy_gradient import PlainAdvantages, PolicyGradient

__all__ = [
    "CLIPPING",
    "Clipping",
    "Loss",
    "Method",
    "OnlineMethod",
    "OtherSections",
    "PlainAdvantages",
    "PolicyGradient",
    "StepSizes",
    "batch_of",
]
