"""The order of problems or pairs, fixed by the seed before training.

A trainer is given one long epoch, because a sampler that shuffles again each epoch forgets on
resume which epoch it was in.
"""

from __future__ import annotations

import numpy as np

from sage_cli.methods.method import Method
from sage_cli.settings.sections.data import Order


def training_order(population: int, rl: Method, order: Order = "shuffled") -> list[int]:
    """Return the order of prompts in the whole training: their own where a curriculum sorted them.

    Otherwise each pass over them has a permutation of its own.
    """
    generations = -(-rl.steps // rl.steps_per_batch)
    count = generations * rl.prompts_per_batch
    if order != "shuffled":
        return [position % population for position in range(count)]
    return permutations(population, count, rl.seed)


def rows_seen(population: int, rl: Method, order: Order = "shuffled") -> list[int]:
    """The prompts that a training comes to; all where some may be replaced."""
    if rl.replaces_prompts:
        return list(range(population))
    return sorted(set(training_order(population, rl, order)))


def permutations(population: int, count: int, seed: int) -> list[int]:
    """The first `count` of permutations of `population`, one after the other."""
    order: list[int] = []
    for epoch in range(-(-count // population) if count else 0):
        order += np.random.default_rng((seed, epoch)).permutation(population).tolist()
    return order[:count]
