"""`sage theory`: the paper's equations, checked on problems small enough to enumerate."""

from __future__ import annotations

from collections.abc import Callable

from sage_cli.theory import (
    anchors,
    counting,
    estimators,
    expansion,
    guided,
    modes,
    off_target,
    on_the_way,
    optima,
    sequences,
    support,
)
from sage_cli.theory.pictures import pictures
from sage_cli.theory.statement import TOLERANCE, Statement

__all__ = ["STATEMENTS", "TOLERANCE", "Statement", "pictures", "statements"]

STATEMENTS: tuple[Callable[[], Statement], ...] = (
    optima.reverse_kl,
    optima.lagrangian,
    optima.sharpening,
    optima.shaped_anchor,
    sequences.pseudo_kl,
    sequences.decomposition,
    sequences.causal_guide,
    guided.random_formula,
    guided.token_formula,
    guided.branch_formula,
    sequences.entropy_chain,
    counting.pattern_frequency,
    counting.unbiased_pass_at_k,
    optima.entropy_bonus,
    support.unsampled_stays_out,
    support.optimum_expands,
    support.identity,
    expansion.rare_answer_enters,
    expansion.shared_entropy,
    expansion.right_and_wrong_alike,
    expansion.refreshed_guide,
    optima.forward_kl,
    off_target.reweighting,
    off_target.separation,
    off_target.weak_preference,
    modes.covering_matches_moments,
    modes.seeking_takes_one,
    modes.any_policy_has_one_optimum,
    estimators.k3_pulls_forward,
    estimators.branch_scales_k3,
    off_target.stronger_anchor,
    estimators.corrected_is_reverse,
    estimators.head_is_reverse,
    estimators.branch_drops_out,
    estimators.reward_is_exact,
    estimators.looking_ahead_costs,
    estimators.random_drops_out,
    estimators.other_forms,
    expansion.estimators_at_rest,
    expansion.branch_lowers_under_k3,
    sequences.perplexity,
    on_the_way.rates,
    on_the_way.loses_without_an_anchor,
    on_the_way.turning,
    on_the_way.guide_needed,
    on_the_way.natural_gradient,
    on_the_way.covering_on_the_way,
    anchors.chosen_rows,
    anchors.moving_reference,
    anchors.grade_in_the_guide,
    anchors.uniform_over_right,
    anchors.initial_policy_is_held,
)
"""In the order in which the paper makes the claims; the last nine aren't in it."""


def statements() -> tuple[Statement, ...]:
    """Compute every statement, in about two seconds."""
    return tuple(state() for state in STATEMENTS)
