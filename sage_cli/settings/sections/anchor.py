"""`anchor`: what holds the policy in RL, which of its rows, and how that moves."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from sage_cli.settings.base import WHERE_SET, Section

Rows = Literal["all", "informative", "wrong", "right"]


class AnchorSection(Section):
    """The KL anchor q(x, y) pi_ref(y | x), Eqs. 3 to 6.

    `estimator` tells four methods apart that share a formula: `k3` as a loss term (the authors'),
    `k3-corrected` times the importance ratio, `head` exact over a state's likeliest tokens,
    `reward` the exact gradient of Eq. 6.
    """

    kl: Literal["reverse", "forward", "none"] = "reverse"
    """Direction of the divergence to the anchor; `none` has no anchor."""
    beta: float = Field(0.05, ge=0)
    """Weight of the KL term."""
    schedule: Literal["constant", "cosine"] = "constant"
    """`cosine` takes beta from its value down to 0 over the training; a guide's force with it."""
    estimator: Literal["k3", "k3-corrected", "head", "reward"] = "k3"
    """`k3`, `k3-corrected`, `head` or `reward`: which gradient the KL term has."""
    head_tokens: int = Field(32, ge=1, json_schema_extra=WHERE_SET)
    """Estimator `head`: the reference's likeliest tokens of each state, over which the divergence
    is summed; past them it is estimated."""
    rows: Rows = "all"
    """The completions that the KL term acts on: `all`, `wrong` ones, `right` ones, or those of
    `informative` groups, which have right and wrong ones. Each is pulled as under `all`: the term's
    mean stays one over all completions."""
    reference: Literal["initial", "base"] = "initial"
    """`initial`: the policy as it starts; `base`: the model without its adapter (LoRA), or before
    supervised warm-up (full tuning)."""
    ema: float | None = Field(None, gt=0, le=1)
    """The reference follows the policy: it becomes `ema` times itself plus the rest of the policy,
    every `ema_every` steps. 1 leaves it where it is, null too."""
    ema_every: int = Field(1, ge=1)
    """Optimiser steps from one such average to the next."""
    reset_every: int | None = Field(None, ge=1)
    """After so many optimiser steps, and again, the policy as it is becomes the reference, and the
    optimiser forgets its moments."""
    reference_samples: int = Field(8, ge=1)
    """Forward KL: completions sampled once from the frozen reference, of each problem that the
    training comes to."""

    @property
    def moves(self) -> bool:
        """Return True if the reference changes in training."""
        return self.ema is not None or self.reset_every is not None

    @property
    def changes(self) -> list[str]:
        """Return phrases on what isn't as in the paper: rows, and how the reference moves."""
        found = [f"rows {self.rows}"] if self.rows != "all" else []
        if self.ema is not None:
            found.append(f"reference averaged with ema {self.ema:g} {_every(self.ema_every)}")
        if self.reset_every is not None:
            found.append(f"reference reset to the policy {_every(self.reset_every)}")
        return found

    @model_validator(mode="after")
    def _nothing_idle(self) -> AnchorSection:
        fields = type(self).model_fields
        if self.kl != "forward" and self.reference_samples != fields["reference_samples"].default:
            raise ValueError(
                f"reference_samples {self.reference_samples} are those of forward KL, and "
                f"anchor.kl is '{self.kl}' (add --kl forward, or leave it out)"
            )
        if self.estimator != "head" and self.head_tokens != fields["head_tokens"].default:
            raise ValueError(
                f"head_tokens {self.head_tokens} are those of the estimator head, and "
                f"anchor.estimator is '{self.estimator}' (use anchor.estimator=head, or leave "
                "head_tokens out)"
            )
        if self.ema is None and self.ema_every != fields["ema_every"].default:
            raise ValueError(
                f"ema_every {self.ema_every} is how often the reference is averaged, and "
                "anchor.ema is not set (set it, to .9 for instance, or leave ema_every out)"
            )
        return self

    def conflicts(self, steps: int) -> list[str]:
        """Return why rows and a moving reference can't be as asked in a training of `steps`."""
        names = [
            name for name, usual in (("rows", "all"), ("ema", None), ("reset_every", None))
            if getattr(self, name) != usual
        ]  # fmt: skip
        found = []
        if names and (self.kl != "reverse" or self.beta == 0):
            found.append(
                f"anchor.{names[0]} is {getattr(self, names[0])}, and there is no reverse KL to "
                "the policy's own completions: anchor.kl is "
                f"'{self.kl}', anchor.beta {self.beta:g} (use --kl reverse and --beta above 0)"
            )
        if self.moves and self.reference == "base":
            found.append(
                "anchor.reference is 'base', another model than the policy: it can't follow it "
                "(use --set anchor.reference=initial, or leave out anchor.ema and reset_every)"
            )
        if self.reset_every is not None and self.reset_every >= steps:
            found.append(
                f"anchor.reset_every is {self.reset_every}, and the training ends after {steps} "
                "steps: the reset would never come (use a smaller one, or leave it out)"
            )
        return found


def _every(steps: int) -> str:
    return "every step" if steps == 1 else f"every {steps} steps"
