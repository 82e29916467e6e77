"""Exact chances along the checkpoints of a run."""

from __future__ import annotations

import numpy as np
import pytest

from sage_cli.analysis.analysis import Inputs, Options
from sage_cli.analysis.measures.exact import exact, paths
from sage_cli.evaluation.exact.chances import Chances


def chances(*p_P: float) -> Chances:
    """The chances of one way at temperature 1."""
    p_TPW = np.array(p_P)[None, :, None]
    return Chances(("a", "b"), ("S",), frozenset(), (1.0,), p_TPW)


NAMED = {
    ("arithmetic", "rl@20"): chances(0.5, 0.0),
    ("arithmetic", "rl@40"): chances(0.5, 0.2),
    ("arithmetic", "rl"): chances(0.6, 0.2),
    ("arithmetic", "base"): chances(0.1, 0.1),
}


def test_a_run_is_a_path_of_its_checkpoints_and_its_end() -> None:
    found = paths(NAMED, 1.0, 2)
    assert list(found["arithmetic"]) == ["rl"]
    # pass@2 of p is 1 - (1 - p)^2: (.75 + 0) / 2, (.75 + .36) / 2, (.84 + .36) / 2
    expected = [[0.25, 0.375], [0.35, 0.555], [0.4, 0.6]]
    assert found["arithmetic"]["rl"].tolist() == [pytest.approx(one) for one in expected]


def test_ends_alone_have_no_path() -> None:
    ends = {key: one for key, one in NAMED.items() if "@" not in key[1]}
    assert paths(ends, 1.0, 2) == {}


def test_the_picture_along_the_steps_is_there_where_checkpoints_are() -> None:
    options = Options(ks=(1, 2), resamples=200)
    assert [one.stem for one in exact(Inputs(chances=NAMED, options=options)).figures] == ["steps"]
