"""Warnings about a run's objective, given before it starts."""

from __future__ import annotations

from sage_cli.config.schema import SageConfig
from sage_cli.settings.compat import OFFICIAL
from sage_cli.settings.sections.anchor import AnchorSection

ESTIMATORS = {
    "k3": "k3 as a loss term (the authors'): the pull towards q pi_ref at each state",
    "k3-corrected": "k3 times the importance ratio: the exact reverse KL of each token",
    "head": "exact over the likeliest tokens of a state: the reverse KL of each token",
    "reward": "log-ratio as reward-to-go: the exact gradient of the sequence's pseudo-KL (Eq. 6)",
}


def remarks(config: SageConfig) -> list[str]:
    """Sentences on divergence, estimator and reference; a warning where the guide does nothing."""
    official = [
        "compat official: the authors' settings where they differ, as docs/fidelity.md lists"
    ]
    found = official if config.rl.compat == OFFICIAL else []
    return found + config.rl.warnings() + _of_the_anchor(config) + _of_dropout(config)


def _of_dropout(config: SageConfig) -> list[str]:
    model = config.model
    if model.tuning != "lora" or not model.lora.dropout:
        return []
    return [
        f"model.lora.dropout {model.lora.dropout:g} doesn't act in RL, which trains without dropout"
    ]


def _of_the_anchor(config: SageConfig) -> list[str]:
    anchor = config.anchor
    if not config.rl.takes_a_guide:  # it has something else that holds it
        return []
    if anchor.kl == "none" or anchor.beta == 0:
        return ["no KL anchor: no reference is loaded"]
    if anchor.kl == "forward":
        return [
            f"forward KL, beta {beta_in_words(anchor)}: cross-entropy on "
            f"{anchor.reference_samples} completions per prompt of the reference "
            f"({anchor.reference})"
        ]
    found = [
        f"reverse KL, beta {beta_in_words(anchor)}, reference: {anchor.reference}; "
        f"estimator {anchor.estimator}: {ESTIMATORS[anchor.estimator]}",
        *anchor.changes,
    ]
    guided = config.guide.name != "none"
    if guided and config.guide.of_states and anchor.estimator in ("k3-corrected", "head"):
        found.append(
            f"warning: {config.guide.name} depends on the state alone and drops out in expectation "
            f"under {anchor.estimator}: it only adds variance (use anchor.estimator=k3 or reward)"
        )
    if anchor.estimator == "head" and config.rollout.truncates:
        found.append(
            "warning: rollouts leave out unlikely tokens (rollout.top_p, top_k or min_p), of "
            "which head then estimates nothing past its anchor.head_tokens"
        )
    return found


def beta_in_words(anchor: AnchorSection) -> str:
    """The anchor's weight, and where it goes."""
    return f"{anchor.beta:g}" + (" falling to 0" if anchor.schedule == "cosine" else "")
