"""BNPO as the trainer library has it: the mean over the batch's active tokens."""

from __future__ import annotations

from typing import Literal

from sage_cli.methods.method import Loss, PlainAdvantages


class Bnpo(PlainAdvantages):
    """The trainer library's `bnpo`."""

    algo: Literal["bnpo"] = "bnpo"
    loss: Loss = "bnpo"

    source = "the trainer library's bnpo, as in the paper: mean over the batch's active tokens"
    read_from = "code"
