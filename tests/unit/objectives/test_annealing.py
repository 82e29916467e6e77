"""beta over a training, by hand."""

import pytest

from sage_cli.objectives.annealing import share_of_beta


def test_the_cosine_by_hand():
    # t / T = 0, .25, .5, 1: (1 + cos) / 2 = 1, (1 + .70711) / 2, .5, 0
    found = [1e-3 * share_of_beta("cosine", step, 8) for step in (0, 2, 4, 8)]
    assert found == pytest.approx([1e-3, 8.536e-4, 5e-4, 0], abs=1e-7)


def test_a_constant_beta_is_all_there_throughout():
    assert {share_of_beta("constant", step, 8) for step in range(9)} == {1.0}
