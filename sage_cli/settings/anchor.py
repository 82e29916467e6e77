"""`anchor`: the KL term, its reference, its estimator."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sage_cli.settings.section import WHERE_SET, Section

Rows = Literal["all", "informative", "wrong", "right"]
OWN_REFERENCES = ("initial", "pre-sft")
"""The words of `anchor.reference` that mean a state of the policy itself."""
DISTILLING = ("reward", "head")
"""The estimators by which a teacher alone can train a policy; the first is the default then."""


class AnchorSection(Section):
    """The KL anchor q(x, y) pi_ref(y | x), Eqs. 3 to 6.

    `estimator` chooses between four gradients of the same formula: `k3` as a loss term (the
    authors'), `k3-corrected`, which multiplies it by the importance ratio, `head`, which is
    exact over a state's most likely tokens, and `reward`, which is the exact gradient of Eq. 6.
    """

    kl: Literal["reverse", "forward", "none"] = "reverse"
    """Direction of the KL divergence to the anchor: `reverse` or `forward`; `none` trains without
    an anchor."""
    beta: float = Field(0.05, ge=0)
    """Weight β that the KL term (the KL penalty) has."""
    schedule: Literal["constant", "cosine"] = "constant"
    """Schedule of beta: with `cosine` it falls from its value to 0 over the run, and the guide's
    effect falls with it."""
    estimator: Literal["k3", "k3-corrected", "head", "reward"] = "k3"
    """KL estimator, which decides the gradient of the KL term: `k3`, `k3-corrected`, `head` or
    `reward`."""
    head_tokens: int = Field(32, ge=1, json_schema_extra=WHERE_SET)
    """Number of the reference's most likely tokens over which the estimator `head` sums the
    divergence exactly. The rest is estimated."""
    rows: Rows = "all"
    """Completions that the KL term acts on: `all`, only the `wrong` or the `right` (correct) ones,
    or those of `informative` groups, which contain both. The term is always averaged over all
    completions, so that each completion is pulled as strongly as under `all`."""
    tokens: Literal["all", "certain", "uncertain"] = Field("all", json_schema_extra=WHERE_SET)
    """Tokens that the KL term acts on: `all`, the `uncertain` ones, whose entropy under the policy
    is above the completion's quantile, or the `certain` ones. The term is always averaged over
    all tokens."""
    uncertain_share: float = Field(0.2, gt=0, lt=1, json_schema_extra=WHERE_SET)
    """Share of a completion's tokens that are taken as uncertain."""
    reference: str = Field("initial", min_length=1)
    """Reference model of the anchor. `initial` is the policy as RL starts. `pre-sft` is the model
    without its adapter, or before SFT; without SFT it is the same as `initial`. The old
    spelling `base` means `pre-sft`. Anything else names a teacher with the policy's vocabulary:
    a folder, a model of the Hub (ORG/MODEL) or a run. Without a reward (`rl.rewards=[]`) the
    policy is distilled from it."""
    ema: float | None = Field(None, gt=0, le=1)
    """Factor with which the reference follows the policy: every `ema_every` steps, it becomes `ema`
    times itself plus (1 − `ema`) times the policy. With null or 1, the reference does not
    change."""
    ema_every: int = Field(1, ge=1)
    """Number of optimiser steps after which the reference is updated again by `ema`."""
    reset_every: int | None = Field(None, ge=1)
    """Number of optimiser steps after which the current policy becomes the reference and the
    optimiser's moments are reset, repeatedly. This happens at the end of the step's generation
    batch."""
    reference_samples: int = Field(8, ge=1)
    """Number of completions of each training problem that are sampled for forward KL from the
    frozen reference, once."""

    @property
    def teacher(self) -> str | None:
        """The model that the policy is held to if it is none of the policy's own; else None."""
        return None if self.reference in OWN_REFERENCES else self.reference

    @property
    def moves(self) -> bool:
        """Return True if the reference changes in training."""
        return self.ema is not None or self.reset_every is not None

    @property
    def changes(self) -> list[str]:
        """Return phrases on what isn't as in the paper: rows, tokens, how the reference moves."""
        phrases = [f"rows {self.rows}"] if self.rows != "all" else []
        if self.tokens != "all":
            phrases.append(f"{self.tokens} tokens (uncertain: {self.uncertain_share:.0%})")
        if self.ema is not None:
            phrases.append(f"reference averaged with ema {self.ema:g} {_every(self.ema_every)}")
        if self.reset_every is not None:
            phrases.append(f"reference reset to the policy {_every(self.reset_every)}")
        return phrases

    def conflicts(self, steps: int) -> list[str]:
        """Return why rows, tokens and a moving reference can't be as asked in so many `steps`."""
        fields = type(self).model_fields
        names = [
            name
            for name in ("rows", "tokens", "ema", "reset_every")
            if getattr(self, name) != fields[name].default
        ]
        problems = []
        if names and (self.kl != "reverse" or self.beta == 0):
            no_kl = f"anchor.kl is '{self.kl}' (use --kl reverse)"
            problems.append(
                f"anchor.{names[0]} is {getattr(self, names[0])}, and there is no reverse KL to "
                "the policy's own completions: "
                + ("anchor.beta is 0 (use a --beta above 0)" if self.kl == "reverse" else no_kl)
            )
        if self.moves and self.reference != "initial":
            problems.append(
                f"anchor.reference is '{self.reference}', another model than the policy: it can't "
                "follow it (use --set anchor.reference=initial, or leave out anchor.ema and "
                "reset_every)"
            )
        if self.teacher is not None and (self.kl != "reverse" or self.beta == 0):
            needed = "anchor.kl=reverse" if self.kl != "reverse" else "anchor.beta=1"
            problems.append(
                f"anchor.reference names the teacher '{self.teacher}', which teaches by the "
                f"reverse KL alone, and there is none (use --set {needed})"
            )
        if self.reset_every is not None and self.reset_every >= steps:
            problems.append(
                f"anchor.reset_every is {self.reset_every}, and the training ends after {steps} "
                "steps: the reset would never come (use a smaller one, or leave it out)"
            )
        return problems


def _every(steps: int) -> str:
    return "every step" if steps == 1 else f"every {steps} steps"
