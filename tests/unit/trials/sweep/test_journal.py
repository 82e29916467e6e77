"""The journal of a study after its writer was killed."""

import math
from itertools import islice

import pytest

from sage_cli.trials.sweep.journal import JOURNAL
from sage_cli.trials.sweep.space import Space, Values
from sage_cli.trials.sweep.study import Study

TAU = Values(key="guide.tau", values=(0.1, 0.2))


RHO = Values(key="guide.rho", values=(1.0, 2.0))


GRID = Space(parameters={"tau": TAU, "rho": RHO})


POINTS = list(GRID.points())


@pytest.fixture
def opened(tmp_path):
    """Open a study anew, as another driver would; by default the grid's."""

    def opened(space=GRID, sampler="grid", seed=0, objectives=("pass@1",), **determinants):
        return Study.open(tmp_path / "s", "mine", space, sampler, seed, objectives, determinants)

    return opened


def judged(point, objectives):
    """Some objective of a point, told by its numbers."""
    first = sum(math.sin(3 * value) for value in point.values() if not isinstance(value, str))
    return [first, -first * first][: len(objectives)]


def take(study, count):
    """So many proposals, told one after the other."""
    points = []
    for proposal in islice(iter(study.propose, None), count):
        study.tell(proposal, judged(proposal.point, study.objectives))
        points.append(proposal.point)
    return points


def test_half_a_line_and_a_lock_of_a_killed_driver_do_no_harm(opened, tmp_path):
    study = opened()
    take(study, 1)
    journal = tmp_path / "s" / JOURNAL
    whole = journal.read_bytes()
    journal.write_bytes(whole + b'{"op_code": 5, "wor')
    journal.with_name(f"{JOURNAL}.lock").symlink_to(journal)
    again = opened()
    assert take(again, 9) == POINTS[1:]
    assert journal.read_bytes().startswith(whole)
    assert opened().propose() is None
