"""`rl.advantage_options`: the settings of each built-in advantage, and where it can't act."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, ValidationError

from sage_cli.config.base import Section
from sage_cli.config.launching import sharded_by

if TYPE_CHECKING:
    from sage_cli.config.training import RlSection

CLIPPING = ("grpo", "bnpo", "dapo", "dr_grpo", "luspo")
"""The losses -min(rho A, clipped rho A)."""


class AdvantageOptions(Section):
    """The settings of one advantage."""

    shapes_tokens: ClassVar[bool] = False
    """Whether each token has an advantage of its own."""

    def refusals(self, rl: RlSection) -> list[str]:  # noqa: ARG002
        """Why it can't act under the other settings of `rl`, a sentence each."""
        return []


class NoOptions(AdvantageOptions):
    """`group`, `none`: nothing to set."""


class Beta(AdvantageOptions):
    """`beta`: nothing to set."""

    def refusals(self, rl: RlSection) -> list[str]:
        """Punishments take rewards out of [0, 1]."""
        if not rl.overlong_punishment:
            return []
        return [
            "rl.advantage 'beta' is defined for rewards in [0, 1], and rl.overlong_punishment "
            "takes them below 0 (use --advantage group or rl.overlong_punishment=false)"
        ]


class PassAtK(AdvantageOptions):
    """`pass-at-k`: verdicts of sets of `k`."""

    k: int = Field(4, ge=1)

    def refusals(self, rl: RlSection) -> list[str]:
        """Sets as large as the group, and rewards that are no verdicts."""
        group, found = rl.rollouts_per_prompt, []
        if self.k >= group:
            found.append(
                f"rl.advantage_options.k is {self.k}, and a group has {group} completions: "
                + (
                    "it has no subset of k"
                    if self.k > group
                    else "its only subset of k is the group, in which all advantages are alike"
                )
                + " (use a smaller k, or raise rl.rollouts_per_prompt)"
            )
        if rl.overlong_punishment:
            found.append(
                "rl.advantage 'pass-at-k' reads verdicts alone and would ignore "
                "rl.overlong_punishment (use rl.overlong_punishment=false, or --algo pkpo)"
            )
        return found


class Pkpo(AdvantageOptions):
    """`pkpo`: the best of `k`; k is 1 from step `anneal_after` on."""

    k: int = Field(4, ge=1)
    form: Literal["favoured", "leave-one-out"] = "favoured"
    anneal_after: int | None = Field(None, ge=0)

    def refusals(self, rl: RlSection) -> list[str]:
        """Sets larger than what there is to draw them from."""
        group = rl.rollouts_per_prompt
        most = group if self.form == "favoured" else group - 1
        if self.k <= most:
            return []
        return [
            f"rl.advantage_options.k is {self.k}, and '{self.form}' takes at most {most} of a "
            f"group's {group} completions (use a smaller k, or raise "
            "rl.rollouts_per_prompt)"
        ]


class EntropyShaped(AdvantageOptions):
    """`entropy-shaped`: A + min(alpha H, |A| / kappa)."""

    shapes_tokens = True
    alpha: float = Field(0.4, ge=0)
    kappa: float = Field(2.0, gt=1)


class Steer(AdvantageOptions):
    """`steer`: weights between `minimum` and `maximum` (`exp`: and 1), by Omega."""

    shapes_tokens = True
    form: Literal["linear", "exp"] = "linear"
    omega: Literal["code", "paper"] = "code"
    minimum: float = Field(0.8, gt=0, le=1)
    maximum: float = Field(1.2, ge=1)


class ClipCov(AdvantageOptions):
    """`clip-cov`: a `share` of the tokens with a covariance from `low` to `high` is left out."""

    shapes_tokens = True
    share: float = Field(2e-4, gt=0, le=1)
    low: float = 1.0
    high: float = 5.0


class KlCov(AdvantageOptions):
    """`kl-cov`: |log rho| is added for the `share` of tokens with the greatest covariance."""

    shapes_tokens = True
    share: float = Field(2e-3, gt=0, le=1)
    coefficient: float = Field(1.0, ge=0)

    def refusals(self, rl: RlSection) -> list[str]:
        """Updates whose ratio is 1, and losses that its term doesn't fit."""
        found = []
        if rl.steps_per_batch == 1:
            found.append(
                "rl.advantage 'kl-cov' holds tokens back by |log pi / pi_old|, and with one update "
                "per generation that is 0 with gradient 0 (use rl.iterations or "
                "rl.steps_per_generation above 1)"
            )
        if rl.clip or rl.loss not in CLIPPING:
            found.append(
                "rl.advantage 'kl-cov' adds to a loss that isn't clipped, and the loss is "
                f"'{rl.loss}' with rl.clip={str(rl.clip).lower()} (use rl.clip=false with one of "
                f"{', '.join(CLIPPING)})"
            )
        return found


class Verl(AdvantageOptions):
    """`verl`: prefixes of `stride` tokens, 2 `stride`, ...; `momentum` of the moving means."""

    stride: int = Field(40, ge=2)
    momentum: float = Field(0.3, gt=0, le=1)
    kappa: float = Field(2.0, gt=1)

    def refusals(self, rl: RlSection) -> list[str]:
        """Hidden states that no process has whole."""
        if (sharding := sharded_by(rl.accelerate)) is None:
            return []
        return [
            "rl.advantage 'verl' reads hidden states in one piece, and rl.accelerate "
            f"'{rl.accelerate}' ({sharding}) spreads the policy (use --accelerate ddp)"
        ]


BUILT_IN_ADVANTAGES: dict[str, type[AdvantageOptions]] = {
    "group": NoOptions,
    "none": NoOptions,
    "beta": Beta,
    "pass-at-k": PassAtK,
    "pkpo": Pkpo,
    "entropy-shaped": EntropyShaped,
    "steer": Steer,
    "clip-cov": ClipCov,
    "kl-cov": KlCov,
    "verl": Verl,
}
"""Settings by the name in `rl.advantage`."""


def advantage_options(name: str, given: Mapping[str, Any]) -> AdvantageOptions:
    """The built-in advantage's settings, defaults filled in. Raises ValueError in one sentence."""
    kind = BUILT_IN_ADVANTAGES[name]
    known = list(kind.model_fields)
    if unknown := [key for key in given if key not in known]:
        has = f"its options: {', '.join(known)}" if known else "it has none"
        raise ValueError(f"advantage '{name}' has no option '{unknown[0]}'; {has}")
    try:
        return kind(**given)
    except ValidationError as error:
        complaints = (f"{one['loc'][0]}: {one['msg'].lower()}" for one in error.errors())
        raise ValueError(f"advantage '{name}': {'; '.join(complaints)}") from None
