"""GRPO, and the methods that differ from it in settings alone."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sage_cli.methods.clipping import Loss
from sage_cli.methods.policy_gradient import PlainAdvantages


class Grpo(PlainAdvantages):
    """GRPO (Shao et al. 2024)."""

    algo: Literal["grpo"] = "grpo"

    source = "Shao et al. 2024 (DeepSeekMath): group-normalised advantages, mean over each sequence"


class Bnpo(PlainAdvantages):
    """The trainer library's `bnpo`."""

    algo: Literal["bnpo"] = "bnpo"
    loss: Loss = "bnpo"

    source = "the trainer library's bnpo, as in the paper: mean over the batch's active tokens"
    read_from = "code"


class DrGrpo(PlainAdvantages):
    """Dr. GRPO (Liu et al. 2025)."""

    algo: Literal["dr-grpo"] = "dr-grpo"
    loss: Loss = "dr_grpo"
    advantage: Literal["group", "none", "beta"] = "none"

    source = "Liu et al. 2025: centred advantages without scaling, a constant length normaliser"


class Gspo(PlainAdvantages):
    """GSPO (Zheng et al. 2025)."""

    algo: Literal["gspo"] = "gspo"
    importance_sampling_level: Literal["token", "sequence"] = "sequence"
    epsilon_low: float = Field(3e-4, gt=0, le=1)
    epsilon_high: float = Field(4e-4, gt=0)
    steps_per_generation: int = Field(4, ge=1)

    source = "Zheng et al. 2025 (arXiv 2507.18071): one ratio for a completion, the tokens' mean"
    read_from = "secondary"
    kl_without_guide = "none"


class Dapo(PlainAdvantages):
    """DAPO (Yu et al. 2025)."""

    algo: Literal["dapo"] = "dapo"
    loss: Loss = "dapo"
    epsilon_high: float = Field(0.28, gt=0)
    dynamic_sampling: bool = True
    overlong_buffer: float | None = Field(0.2, gt=0, lt=1)

    source = (
        "Yu et al. 2025: token-level loss, clip-higher, dynamic sampling, soft overlong punishment"
    )
    kl_without_guide = "none"


class TopEntropy(Dapo):
    """The 80/20 rule (Wang et al. 2025): DAPO whose policy term leaves four fifths out."""

    algo: Literal["80-20"] = "80-20"  # type: ignore[assignment]
    top_entropy_quantile: float = Field(0.2, ge=0, le=1)

    source = "Wang et al. 2025 (arXiv 2506.01939): only the fifth of tokens of highest entropy"
    read_from = "secondary"
    differs = "the fifth is of a micro-batch"


class EntropyBonus(PlainAdvantages):
    """GRPO whose loss has the mean entropy, times a constant, taken from it."""

    algo: Literal["entropy-bonus"] = "entropy-bonus"
    entropy_coefficient: float = Field(0.01, ge=0)

    source = "GRPO with a bonus on the mean entropy of the tokens; 0.001 to 0.1 in PKPO's baselines"
    differs = "the coefficient, for which no single value is named"


class AdaptiveEntropy(PlainAdvantages):
    """Skywork-OR1's bonus (He et al. 2025) on GRPO."""

    algo: Literal["adaptive-entropy"] = "adaptive-entropy"
    entropy_target: float | None = Field(0.2, gt=0)

    source = "Skywork-OR1 (He et al. 2025, arXiv 2505.22312): a bonus that holds the entropy up"
    read_from = "secondary"
    differs = "the bonus alone, on GRPO"


class AnnealedKl(PlainAdvantages):
    """GRPO under `anchor.schedule=cosine` (Chen et al. 2025b)."""

    algo: Literal["annealed-kl"] = "annealed-kl"

    source = "Chen et al. 2025b (arXiv 2503.04548): GRPO whose beta falls to 0 on a cosine"
    differs = "beta starts at anchor.beta, theirs at 1e-3"
    anchored = {"schedule": "cosine"}  # noqa: RUF012
