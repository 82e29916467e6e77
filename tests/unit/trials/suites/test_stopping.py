"""May a suite stop? Made-up chances, looked at by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from sage_cli.evaluation.exact.chances import Chances
from sage_cli.trials.suites.declaration import Suite
from sage_cli.trials.suites.exact import ReadReplicate
from sage_cli.trials.suites.overrides import Overrides, trials_of
from sage_cli.trials.suites.results import MethodResult, PartResult
from sage_cli.trials.suites.sections.stopping import stopping, stopping_rule

TEMPERATURES = (0.9, 1.0, 1.2)
SPREAD = 0.4
"""pass@1 of both methods, two problems that are this far apart in all."""


def chances(gain: float) -> Chances:
    """pass@1 .3 at T = 1; the closer both problems are, the greater pass@2."""
    half = (SPREAD - gain) / 2
    p_TPW = np.array([[[mean - half], [mean + half]] for mean in (0.35, 0.3, 0.25)])
    return Chances(("a", "b"), ("S",), frozenset(), TEMPERATURES, p_TPW)


def result(gains: Sequence[float], *, seeds: int = 1, lacking: int = 0) -> PartResult:
    """The branch method is ahead by about `gains`; the last replicates may lack."""
    suite = Suite.model_validate(
        {
            "name": "mine", "title": "Mine", "seeds": seeds, "measured": "exact", "k": "1,2",
            "temperatures": [0.9, 1.2], "methods": {"anchor": "grpo", "branch": "grpo/branch"},
            "initial_policies": [*range(41, 41 + len(gains))],
            "trades": [
                {"name": "main", "method": "branch", "against": "anchor", "k": 2, "primary": True}
            ],
            "stop": {"first": 3, "look_every": 2, "most": 7, "within": 0.02},
        }
    )  # fmt: skip
    trials = trials_of(suite, Overrides(("tiny",)))
    read = {}
    for trial in trials:
        every = [
            ReadReplicate(
                one,
                {"arithmetic": chances(
                    gains[int(one.start or 0) - 41] if trial.label == "branch" else 0.0
                )},
                {},
            )
            for one in trial.replicates
        ]  # fmt: skip
        read[trial.label] = every[: len(every) - lacking]
    return PartResult(suite, [MethodResult(trial, []) for trial in trials], {}, read)


def test_a_clear_difference_may_stop_at_the_first_look() -> None:
    found = stopping(result([0.2, 0.21, 0.19]))
    (look,) = found.looks
    # pass@2 is mean(2p - p²): problems .1 and .5 have .47; with a gain of .2 they are .2 and .4,
    # .5 in the mean: .03 more
    assert look.mean == pytest.approx(0.03, abs=0.001)
    assert (found.decision, look.excludes_zero) == ("may stop", True)
    assert found.why == "at 3 initial policies the interval excludes 0"


def test_a_difference_near_zero_may_stop_as_too_small() -> None:
    found = stopping(result([0.001, -0.001, 0.0]))
    assert found.decision == "may stop"
    assert found.why == "at 3 initial policies the interval lies within ± 0.02"


OPEN = [0.3, -0.3, 0.2, -0.2, 0.3, -0.3, 0.1]


def test_an_open_one_goes_on_until_the_most() -> None:
    found = stopping(result(OPEN[:4]))
    assert [look.count for look in found.looks] == [3]
    assert found.decision == "goes on"
    assert found.why == (
        "at 3 the interval includes 0 and does not lie within ± 0.02; the next look is at 5 "
        "initial policies, 4 are there"
    )
    ended = stopping(result(OPEN))
    assert [look.count for look in ended.looks] == [3, 5, 7]
    assert (ended.decision, ended.why) == (
        "may stop", "7 initial policies are the most that the rule allows",
    )  # fmt: skip


def test_a_look_waits_for_all_replicates() -> None:
    found = stopping(result([0.2, 0.21, 0.19], seeds=2, lacking=1))
    assert (found.looks, found.decision) == ([], "goes on")
    assert found.why == "the next look is at 3 initial policies, 3 are there"


def test_an_initial_policy_that_reaches_no_common_pass_at_1_is_named() -> None:
    part = result([0.2, 0.21, 0.19])
    first, *rest = part.read["branch"]
    p_TPW = np.array([[[0.05], [0.05]]] * 3)  # .05 at each temperature, where the anchor has .25
    low = Chances(("a", "b"), ("S",), frozenset(), TEMPERATURES, p_TPW)
    unreached = ReadReplicate(first.replicate, {"arithmetic": low}, {})
    found = stopping(replace(part, read={**part.read, "branch": [unreached, *rest]}))
    assert (found.looks, found.decision) == ([], "goes on")
    assert found.why == (
        "the next look is at 3 initial policies, 3 are there, and the two sides of 41 reach no "
        "common pass@1: add temperatures"
    )


def test_without_its_primary_trade_a_suite_has_no_stopping_rule() -> None:
    suite = result([0.2, 0.21, 0.19]).suite
    assert suite.only(["anchor"]).stop is None
    assert suite.only(["anchor", "branch"]).stop == suite.stop


def test_the_first_look_that_allows_it_decides() -> None:
    found = stopping(result([0.2, 0.21, 0.19, -0.3, -0.3]))
    assert [look.excludes_zero for look in found.looks] == [True, False]
    assert found.decisive is found.looks[0]


def test_the_section_says_it() -> None:
    document = stopping_rule(result([0.2, 0.21, 0.19]))
    assert document.data["decision"] == "may stop"
    assert document.tables[0].title == "Stopping rule: may stop"
    assert document.data["looks"][0]["interval"] == "excludes 0"
    assert any("at 3, 5, 7 initial policies" in note for note in document.notes)
