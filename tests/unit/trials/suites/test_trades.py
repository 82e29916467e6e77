"""Trades of made-up chances, by hand, and their section."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from sage_cli.evaluation.exact.chances import Chances
from sage_cli.trials.suites.comparisons import Trade
from sage_cli.trials.suites.declaration import Suite
from sage_cli.trials.suites.exact import ReadReplicate
from sage_cli.trials.suites.overrides import Overrides, trials_of
from sage_cli.trials.suites.results import MethodResult, PartResult
from sage_cli.trials.suites.sections.exact import exact
from sage_cli.trials.suites.sections.trades import SERIES, draw_forest, forest, trades
from sage_cli.trials.suites.trades import trade_results

TEMPERATURES = (0.9, 1.0, 1.2)
MAIN = {"name": "main", "method": "branch", "against": ["weak", "strong"], "k": 2, "primary": True}
SUITE = {
    "name": "mine", "title": "Mine", "seeds": 2, "measured": "exact", "k": "1,2",
    "temperatures": [0.9, 1.2],
    "methods": {"base": "base", "weak": "grpo", "strong": "dapo", "branch": "grpo/branch"},
}  # fmt: skip
MEANS = {"base": (0.4, 0.2, 0.1), "weak": (0.5, 0.4, 0.2), "strong": (0.4, 0.3, 0.1)}


def chances(means: Sequence[float], guess: float = 0.0) -> Chances:
    """Two problems with that pass@1 at each temperature, as far apart as that lets them be."""
    p_TPW = np.array([[[m, guess], [m, guess]] for m in means])
    return Chances(("a", "b"), ("S", "D"), frozenset("D"), TEMPERATURES, p_TPW)


def result(
    starts: int, declared: Sequence[dict[str, object]], gains: Sequence[float]
) -> PartResult:
    """The branch method has pass@1 .3 + gain at T = 1 for each initial policy, in both seeds."""
    suite = Suite.model_validate(
        {**SUITE, "initial_policies": [*range(41, 41 + starts)], "trades": [*declared]}
    )
    found = trials_of(suite, Overrides(("tiny",)))
    means = {**MEANS, "branch": (0.35, 0.3, 0.25)}
    read = {}
    for trial in found:
        every = []
        for one in trial.replicates:
            gain = gains[int(one.start or 41) - 41] if trial.label == "branch" else 0.0
            every.append(ReadReplicate(one, {"arithmetic": chances(means[trial.label], gain)}, {}))
        read[trial.label] = every
    return PartResult(suite, [MethodResult(trial, []) for trial in found], {}, read)


def test_the_method_is_laid_beside_the_best_of_the_others_by_hand() -> None:
    found = result(3, [MAIN], [0.0, 0.0, 0.0])
    (one,) = trade_results(found.suite.trades, found.read, 0.95)
    # branch has .3 at T = 1, pass@2 1 - .7^2 = .51; weak has pass@2 .64 at .4 and .36 at .2, so .50
    # half way, at T = 1.1; strong has .3 at T = 1 itself and .51: the best, and no difference
    assert [gap.accuracy for gap in one.gaps] == pytest.approx([0.3] * 6)
    assert [gap.difference for gap in one.gaps] == pytest.approx([0.0] * 6)
    assert {gap.best for gap in one.gaps} == {"strong"}
    assert [(gap.start, gap.seed) for gap in one.gaps] == [
        ("41", 0), ("41", 1), ("42", 0), ("42", 1), ("43", 0), ("43", 1)
    ]  # fmt: skip
    alone = Trade.model_validate({**MAIN, "against": "weak"})
    (one,) = trade_results([alone], found.read, 0.95)
    assert [gap.difference for gap in one.gaps] == pytest.approx([0.01] * 6)
    assert {(round(gap.at, 9), round(gap.best_at, 9)) for gap in one.gaps} == {(1.0, 1.1)}


def test_guesses_count_for_the_equal_pass_at_1_and_may_be_left_out_of_pass_at_k() -> None:
    found = result(3, [], [0.05, 0.05, 0.05])
    every, worked = (
        Trade.model_validate({**MAIN, "against": "weak", "guesses": guesses})
        for guesses in (True, False)
    )
    one, two = trade_results([every, worked], found.read, 0.95)
    # .3 + .05 at T = 1: a quarter of the way from weak's .4 to its .2, pass@2 .64 - .28 / 4 = .57
    assert [gap.accuracy for gap in (*one.gaps, *two.gaps)] == pytest.approx([0.35] * 12)
    assert [gap.difference for gap in one.gaps] == pytest.approx([1 - 0.65**2 - 0.57] * 6)
    assert [gap.difference for gap in two.gaps] == pytest.approx([1 - 0.7**2 - 0.57] * 6)


def test_initial_policies_are_the_replicates_and_the_base_is_each_ones_own() -> None:
    second = {**MAIN, "name": "second", "against": "weak", "primary": False}
    start = {**second, "name": "start", "method": "weak", "against": "base"}
    found = result(4, [MAIN, second, start], [0.0, 0.02, 0.04, 0.06])
    main, other, from_start = trade_results(found.suite.trades, found.read, 0.95)
    assert main.estimate is not None
    assert main.estimate.policies == 4
    # both seeds of an initial policy have the same chances here
    assert main.estimate.seeds == 0
    assert main.estimate.problems == pytest.approx(0, abs=1e-12)
    means = [gap.difference for gap in main.gaps[::2]]
    assert main.estimate.difference == pytest.approx(np.mean(means))
    assert main.estimate.spread == pytest.approx(np.std(means, ddof=1))
    # one primary test: Holm changes nothing; the other is none of the family
    assert main.p_holm == main.estimate.p
    assert other.estimate is not None
    assert np.isnan(other.p_holm)
    # weak has the base's .2 of T = 1 at T = 1.2, with its pass@2: no difference, for both seeds
    assert [gap.difference for gap in from_start.gaps] == pytest.approx([0.0] * 8)


def test_what_is_never_reached_and_what_is_missing_is_said() -> None:
    low = {**MAIN, "name": "low", "method": "base", "against": "branch"}
    found = result(2, [MAIN, low], [0.0, 0.0])
    del found.read["strong"][0]  # type: ignore[attr-defined]
    notes = " ".join(trades(found).notes)
    # the base has .2 at T = 1, the branch method .25 and more at all temperatures
    assert "low: 2 of 2 replicates never have the same pass@1" in notes
    assert "main: 2 initial policies of at least 3 that an interval needs" in notes
    assert "low: 0 initial policies of at least 3" in notes
    assert "main: 1 replicates wait for those they are laid beside" in notes
    assert "strong: 3 of 4 policies are read" in " ".join(exact(found).notes)


def test_along_the_steps_a_path_is_taken_where_it_has_the_others_pass_at_1() -> None:
    found = result(3, [], [0.0] * 3)
    paths = {"branch": {0: 0.1, 20: 0.2, 40: 0.3}, "weak": {0: 0.1, 20: 0.4, 40: 0.5}}
    read = {
        label: [
            ReadReplicate(
                one.replicate, one.end,
                {step: {"arithmetic": chances([p] * 3)} for step, p in paths[label].items()},
            )
            for one in found.read[label]
        ]
        for label in paths
    }  # fmt: skip
    trade = Trade.model_validate({**MAIN, "against": "weak", "over": "steps"})
    (one,) = trade_results([trade], read, 0.95)
    # .3 is branch's end; weak is 2/3 of the way from .1 to .4, step 13 1/3: pass@2 .19 + 2/3 x .45
    assert [gap.difference for gap in one.gaps] == pytest.approx([0.51 - (0.19 + 0.3)] * 6)
    assert one.gaps[0].at == pytest.approx(40)
    assert one.gaps[0].best_at == pytest.approx(40 / 3)


def test_the_page_shows_the_numbers_of_its_tables(tmp_path: Path) -> None:
    found = result(3, [MAIN], [0.0, 0.02, 0.04])
    section = trades(found)
    (estimated,) = section.data["trades"]
    (one,) = trade_results(found.suite.trades, found.read, 0.95)
    assert one.estimate is not None
    assert estimated["difference"] == pytest.approx(one.estimate.difference)
    assert len(section.data["replicates"]) == 6
    panel = forest([one])["main"]
    assert list(panel) == ["41", "42", "43", "mean"]
    assert panel["mean"][SERIES].interval == (one.estimate.low, one.estimate.high)
    draw_forest([one], tmp_path / "trades")
    for figure in exact(found).figures:
        figure.draw(tmp_path / figure.stem)
    assert re.search("initial|41", (tmp_path / "trades.svg").read_text())
    assert (tmp_path / "exact.png").is_file()
    (means,) = exact(found).tables
    assert [row.cells[0] for row in means.rows] == ["base", "weak", "strong", "branch"]
    assert str(means.rows[1].cells[4]).startswith("0.400")
