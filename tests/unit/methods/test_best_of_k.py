"""Advantages for the best of k: by hand, and against the enumeration of all sets."""

from itertools import combinations
from math import comb

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sage_cli.methods.best_of_k import pass_at_k_advantages, pkpo_advantages


def group(*values):
    return torch.tensor([values], dtype=torch.float64)


@given(st.integers(2, 8), st.data())
def test_pass_at_k_is_the_normalised_reward_of_the_sets_with_a_completion(n, data):
    k = data.draw(st.integers(1, n - 1))
    right = data.draw(st.lists(st.integers(0, 1), min_size=n, max_size=n))
    sets = list(combinations(range(n), k))
    rewards = torch.tensor([float(max(right[i] for i in one)) for one in sets]).double()
    deviation = rewards.std(correction=0)
    if deviation == 0:
        expected = torch.zeros(n, dtype=torch.float64)
    else:
        expected = (
            torch.stack([rewards[[i in one for one in sets]].mean() for i in range(n)])
            .sub(rewards.mean())
            .div(deviation)
        )
    torch.testing.assert_close(pass_at_k_advantages(group(*right), k)[0], expected)


@given(st.integers(3, 7), st.data())
def test_pkpo_is_the_enumeration_of_sets(n, data):
    k = data.draw(st.integers(2, n - 1))
    reward = st.sampled_from([-1.0, -0.5, 0.0, 0.25, 1.0])  # with ties
    rewards = data.draw(st.lists(reward, min_size=n, max_size=n))

    def best(of):  # the estimator of E[max of k]
        return sum(max(rewards[i] for i in one) for one in combinations(of, k)) / comb(len(of), k)

    favoured, left_out = [], []
    for i in range(n):
        holding = [one for one in combinations(range(n), k) if i in one]
        maxima = [max(rewards[j] for j in one) for one in holding]
        without = [max(rewards[j] for j in one if j != i) for one in holding]
        favoured.append(n * (sum(maxima) - sum(without)) / comb(n, k))
        others = [j for j in range(n) if j != i]
        left_out.append(n * (sum(maxima) / comb(n, k) - k / (n - 1) * best(others)))
    for form, expected in (("favoured", favoured), ("leave-one-out", left_out)):
        torch.testing.assert_close(
            pkpo_advantages(group(*rewards), k, form)[0], group(*expected)[0], atol=1e-6, rtol=1e-6
        )


@pytest.mark.parametrize("form", ["favoured", "leave-one-out"])
def test_pkpo_of_one_is_the_reward_less_the_others(form):
    # 1 - 1/2 (.5 + 0), .5 - 1/2 (1 + 0), 0 - 1/2 (1 + .5)
    found = pkpo_advantages(group(1, 0.5, 0), 1, form)
    torch.testing.assert_close(found, group(0.75, 0, -0.75))


def test_favoured_of_all_takes_the_group_for_its_only_set():
    # the best of {1, .5, 0} loses .5 without the first
    torch.testing.assert_close(pkpo_advantages(group(0, 1, 0.5), 3, "favoured"), group(0, 1.5, 0))
