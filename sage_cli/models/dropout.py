"""Dropout that modules apply by a number of their own: TRL's `disable_dropout` can't reach it."""

from __future__ import annotations

from typing import Any


def switch_off_own_dropout(model: Any) -> None:
    """Set every number of a module of `model`, if there is one, that is named for dropout to 0.

    Attention layers of Transformers hold a probability, not a `torch.nn.Dropout`. The model's
    configuration, which is saved with it, stays as it was.
    """
    for module in model.modules() if model is not None else ():
        numbers = [name for name, value in vars(module).items() if isinstance(value, float)]
        for name in numbers:
            if "drop" in name:
                setattr(module, name, 0.0)
