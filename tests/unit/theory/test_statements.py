"""Every statement holds, and none of them would if what it checks were broken."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest

from sage_cli.guides import BranchGuide, RandomGuide, TokenGuide
from sage_cli.methods.dph_rl.formula import divergence
from sage_cli.objectives import head_kl, k3
from sage_cli.theory import (
    STATEMENTS,
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
    toy,
)
from sage_cli.theory.ascent import ReverseKl
from sage_cli.theory.paths import REFERENCE_B, Ascent, push, walk
from sage_cli.theory.solutions import tilted
from sage_cli.theory.statement import TOLERANCE, Statement, distance, violation
from sage_cli.theory.tree import Tree

STATES = {state.__name__: state for state in STATEMENTS}


@cache
def found(name: str) -> Statement:
    return STATES[name]()


@pytest.mark.parametrize("name", STATES)
def test_it_holds(name):
    assert found(name).error < TOLERANCE
    assert found(name).holds


def test_each_has_a_name_of_its_own():
    assert len({found(name).name for name in STATES}) == len(STATES) == len(STATEMENTS)


def test_every_equation_and_theorem_is_spoken_of():
    numbers, words = set(), set()
    for name in STATES:
        for part in found(name).equation.split(", "):
            if span := re.fullmatch(r"(\d+)(?:-(\d+))?", part):
                numbers |= set(range(int(span[1]), int(span[2] or span[1]) + 1))
            else:
                words.add(part)
    assert numbers == set(range(1, 40)) - {26}  # Eq. 26 is Eq. 4 again
    assert words == {"Def. 4.1", "Thm 4.2", "Thm 4.3", "Fig. 5", "pass@k"}


def colder(reward_B, anchor_B, beta):
    """Eq. 2 at another beta: a tilt that isn't this one's."""
    return tilted(reward_B, anchor_B, 1.1 * beta)


def own_token_alone(log_ratio_BT, mask_BT, beta):
    """A reward without the later tokens."""
    return -beta * log_ratio_BT.detach() * mask_BT


def without_q_and_mean(way, policy_B):
    """What answers are worth, without the mean taken off."""
    return way.reward - way.beta * (np.log(policy_B) - np.log(REFERENCE_B))


FAULTS = [
    (optima, "tilted", colder, "reverse_kl"),
    (optima, "tilted", colder, "shaped_anchor"),
    (ReverseKl, "slope", lambda self, policy_B: self.reward_B - policy_B, "lagrangian"),
    (optima, "tilted", lambda r, anchor_B, beta: anchor_B**0.9, "sharpening"),
    (optima, "tempered", lambda r, a, b, bonus: tilted(r, a, b + bonus), "entropy_bonus"),
    (optima, "covering", tilted, "forward_kl"),
    (optima, "two_valued_level", lambda p, beta: 1 + beta * p, "forward_kl"),
    (Tree, "masses", lambda self, logp_ZV: np.exp(self.along(logp_ZV)[:, 0]), "pseudo_kl"),
    (Tree, "visits", lambda self, logp_ZV: np.ones(len(logp_ZV)), "decomposition"),
    (Tree, "mean", lambda self, value_BT, logp_ZV: self.passing(value_BT), "causal_guide"),
    (sequences, "entropies", lambda logp_ZV: 1 - np.exp(2 * logp_ZV).sum(1), "entropy_chain"),
    (Tree, "masses", lambda self, logp_ZV: np.exp(self.along(logp_ZV)[:, 0]), "perplexity"),
    (guided, "RandomGuide", partial(RandomGuide, sigma=(0.16, 0.05)), "random_formula"),
    (guided, "TokenGuide", partial(TokenGuide, alpha=(0.31, 0.1)), "token_formula"),
    (guided, "clipped_normal_mean", lambda mean, deviation: mean, "token_formula"),
    (guided, "BranchGuide", partial(BranchGuide, tau=1.201), "branch_formula"),
    (counting, "comb", lambda n, c: n**c, "unbiased_pass_at_k"),
    (counting, "pass_at_k", lambda n, c, k: 1 - np.power.outer(1 - c / n, k), "unbiased_pass_at_k"),
    (counting, "comb", lambda n, c: 1, "pattern_frequency"),
    (support, "detection", lambda mass, rollouts: mass * rollouts, "unsampled_stays_out"),
    (support, "DELTA", 0.02, "unsampled_stays_out"),
    (toy, "tilted", colder, "optimum_expands"),
    (toy, "tilted", lambda r, a, b: tilted(r, a, b) ** 0.9, "identity"),
    (toy, "DELTA", 0.0069, "rare_answer_enters"),
    (toy, "DELTA", 0.0057, "rare_answer_enters"),
    (expansion, "entropies", lambda p_ZV: np.full(7, np.nan), "shared_entropy"),
    (toy, "LOG_Q_BT", toy.TREE.log_q(TokenGuide(), toy.REFERENCE_ZV), "right_and_wrong_alike"),
    (
        expansion,
        "BranchGuide",
        partial(BranchGuide, signal="reference", tau=0.1),
        "refreshed_guide",
    ),
    (toy, "covering", tilted, "estimators_at_rest"),
    (toy, "covering", tilted, "branch_lowers_under_k3"),
    (off_target, "covering_level", lambda r, a, beta: 1 + beta, "reweighting"),
    (off_target, "preference_needed", lambda p, beta: 0.0, "separation"),
    (off_target, "preference_needed", lambda p, beta: np.inf, "separation"),
    (off_target, "two_valued_level", lambda p, beta: 1 + beta, "weak_preference"),
    (off_target, "covering", lambda r, a, beta: tilted(r, a, 1 / beta), "stronger_anchor"),
    (modes, "fits", lambda: {"forward": modes.two_modes()[::-1]}, "covering_matches_moments"),
    (modes, "STARTS", {"left": 2.0, "right": -2.0}, "seeking_takes_one"),
    (modes, "best_policy", lambda objective: np.full(81, 1 / 81), "any_policy_has_one_optimum"),
    (estimators, "k3", lambda *logps: -k3(*logps), "k3_pulls_forward"),
    (estimators, "k3", lambda logps, ref, q: k3(logps, ref), "branch_scales_k3"),
    (estimators, "k3_corrected", lambda a, ref, old, q: k3(a, ref, q), "corrected_is_reverse"),
    (estimators, "k3_corrected", lambda a, ref, old, q: k3(a, ref, q), "branch_drops_out"),
    (
        estimators,
        "head_kl",  # as published: the rest without the gradient of its probability
        lambda head, anchor, inside, ratio, weight: head_kl(
            head, anchor, inside, ratio.detach(), weight
        ),
        "head_is_reverse",
    ),
    (estimators, "reward_to_go", own_token_alone, "reward_is_exact"),
    (estimators, "reward_to_go", own_token_alone, "looking_ahead_costs"),
    (estimators, "k3", lambda logps, ref, q: k3(logps, ref, 2 * q), "random_drops_out"),
    (estimators, "k3_corrected", lambda a, ref, old: k3(a, ref), "other_forms"),
    (on_the_way, "gains", lambda way, policy_B: way.reward - policy_B @ way.reward, "rates"),
    (
        on_the_way,
        "push",
        lambda way, z_B: push(replace(way, beta=0.01), z_B),
        "loses_without_an_anchor",
    ),
    (on_the_way, "rise_without_an_anchor", lambda policy_B: 0.0, "loses_without_an_anchor"),
    (on_the_way, "gains", without_q_and_mean, "turning"),
    (on_the_way, "guide_that_holds", lambda: 0.695 * 59, "guide_needed"),
    (on_the_way, "walk", lambda way, at: walk(replace(way, natural=False), at), "natural_gradient"),
    (on_the_way, "k3", lambda logps, ref, q: k3(logps, ref), "covering_on_the_way"),
    (on_the_way, "covering", tilted, "covering_on_the_way"),
    (anchors, "mode_anchored", lambda right_B, p_B, beta: right_B, "uniform_over_right"),
    (anchors, "tilted", colder, "grade_in_the_guide"),
    (
        anchors,
        "divergence",
        lambda u, kind, alpha, limit: -divergence(u, kind, alpha=alpha, limit=limit),
        "initial_policy_is_held",
    ),
    (
        anchors,
        "at_rest",
        lambda p, q, r, b, moved: tilted(moved * r, q**moved * p, b),
        "moving_reference",
    ),
    (Ascent, "held", lambda self, policy_XB: np.ones_like(policy_XB), "chosen_rows"),
    (anchors, "informative_mass", lambda beta: 0.764305, "chosen_rows"),
]


@pytest.mark.parametrize(("where", "what", "broken", "statement"), FAULTS)
@pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")
def test_a_fault_is_noticed(where, what, broken, statement, monkeypatch):
    monkeypatch.setattr(where, what, broken)
    assert not STATES[statement]().holds


def test_every_statement_has_met_a_fault():
    assert {statement for *_, statement in FAULTS} == set(STATES)


def test_what_is_undefined_does_not_hold():
    assert not Statement("one", "1", "it is", float("nan"), "as printed").holds
    assert not Statement("one", "1", "it is", TOLERANCE, "as printed").holds


def test_distances_and_violations():
    assert distance(np.array([1.0, 2.0]), np.array([1.5, 2.25])) == 0.5
    assert violation(np.array([1.0, 3.0]), np.array([2.0, 2.5])) == 0.5  # 3 <= 2.5 fails by .5
    assert violation(1.0, 1.0) == 0.0
