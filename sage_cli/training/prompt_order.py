"""The order in which a training run comes to its prompts."""

from __future__ import annotations

from sage_cli.methods.loop import Method


def training_order(population: int, rl: Method) -> list[int]:
    """Return the order of prompts in the whole training: each pass has a permutation of its own."""
    # one long epoch: a sampler that shuffles again each epoch forgets on resume which epoch it is
    # in
    generations = -(-rl.steps // rl.steps_per_batch)
    count = generations * rl.prompts_per_batch
    return permutations(population, count, rl.seed)


def rows_seen(population: int, rl: Method) -> list[int]:
    """Return the prompts that a training comes to; all where some may be replaced."""
    if rl.replaces_prompts:
        return list(range(population))
    return sorted(set(training_order(population, rl)))


def permutations(population: int, count: int, seed: int) -> list[int]:
    """Return the first `count` of permutations of `population`, one after the other."""
    from numpy.random import default_rng  # which a plan does without

    order: list[int] = []
    for epoch in range(-(-count // population) if count else 0):
        order += default_rng((seed, epoch)).permutation(population).tolist()
    return order[:count]
