"""Results from runs, from a published file, and from both."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_up_page import made_up
from registered_suite import plan

from sage_cli.errors import ConfigurationError
from sage_cli.trials.suites.exact import ReadReplicate
from sage_cli.trials.suites.planned import PlannedSuite
from sage_cli.trials.suites.registered import found as module
from sage_cli.trials.suites.registered.found import found_results
from sage_cli.trials.suites.registered.measurements_file import write_measurements
from sage_cli.trials.suites.results import MethodResult, PartResult


def here(of: PlannedSuite, starts: tuple[str, ...], shift: float = 0.0) -> PartResult:
    """Return results of these initial policies alone, with `shift` added to every chance."""
    (whole,) = made_up(of)
    read = {
        label: [shifted(one, shift) for one in every if one.start in starts]
        for label, every in whole.read.items()
    }
    methods = [MethodResult(one.trial, [], "not measured yet") for one in whole.methods]
    return PartResult(whole.suite, methods, whole.same, read)


def shifted(one: ReadReplicate, shift: float) -> ReadReplicate:
    end = {name: replace(by, p_TPW=by.p_TPW + shift) for name, by in one.end.items()}
    return ReadReplicate(one.replicate, end, {})


@pytest.fixture
def published(tmp_path: Path) -> Path:
    file = tmp_path / "mine.measurements.parquet"
    write_measurements(file, made_up(plan(tmp_path)))
    return file


def found(
    of: PlannedSuite, own: PartResult, file: Path | None, monkeypatch: pytest.MonkeyPatch
) -> tuple[PartResult, str]:
    monkeypatch.setattr(module, "results", lambda part, stored, failures: own)
    (part,), source = found_results(of, {}, file)
    return part, source


def test_a_replicate_that_is_not_here_is_taken_from_the_file(
    tmp_path: Path, published: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = plan(tmp_path)
    own = here(of, ("42",), shift=0.125)
    both, source = found(of, own, published, monkeypatch)
    assert source == "runs and mine.measurements.parquet"
    (whole,) = made_up(of)
    for label, every in both.read.items():
        assert [(one.start, one.replicate.seed) for one in every] == [
            (one.start, one.replicate.seed) for one in whole.read[label]
        ]
        for one, made in zip(every, whole.read[label], strict=True):
            shift = 0.125 if one.start == "42" else 0.0  # the own one is preferred
            ours, theirs = one.end["arithmetic"].p_TPW, made.end["arithmetic"].p_TPW
            np.testing.assert_allclose(ours, theirs + shift, rtol=1e-4, atol=1e-12)
    assert all(method.why is None for method in both.methods)


def test_a_replicate_that_is_nowhere_is_missing(
    tmp_path: Path, published: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = plan(tmp_path, ("[41, 42, 43]", "[41, 42, 43, 44]"))
    both, source = found(of, here(of, ()), published, monkeypatch)
    assert source == "mine.measurements.parquet"
    assert {one.start for every in both.read.values() for one in every} == {"41", "42", "43"}
    assert {method.why for method in both.methods} == {"not measured yet"}


def test_without_a_file_or_with_all_runs_here_results_are_the_runs(
    tmp_path: Path, published: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = plan(tmp_path)
    some, all_ = here(of, ("42",)), here(of, ("41", "42", "43"), shift=0.125)
    assert found(of, some, None, monkeypatch) == (some, "runs")
    assert found(of, all_, published, monkeypatch) == (all_, "runs")
    assert found(of, here(of, ()), None, monkeypatch)[1] == ""


@pytest.mark.parametrize(
    "change", [("rl.steps: 2", "rl.steps: 3"), ("held_out: 40", "held_out: 50")]
)
def test_another_runs_or_other_problems_results_are_not_taken(
    tmp_path: Path, published: Path, monkeypatch: pytest.MonkeyPatch, change: tuple[str, str]
) -> None:
    of = plan(tmp_path, change)
    if "held_out" in change[0]:  # the initial policies are others, too
        with pytest.raises(ConfigurationError, match="has no result of the runs that mine plans"):
            found(of, here(of, ()), published, monkeypatch)
        return
    both, _ = found(of, here(of, ()), published, monkeypatch)
    assert {label for label, every in both.read.items() if every} == {"base"}


def test_a_temperature_that_was_not_read_is_missing_and_one_more_is_left_out(
    tmp_path: Path, published: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fewer = plan(tmp_path, ("[1.0, 1.2]", "[1.0]"))
    both, _ = found(fewer, here(fewer, ()), published, monkeypatch)
    (end,) = both.read["branch"][0].end.values()
    assert (end.temperatures, len(end.p_TPW)) == ((1.0,), 1)
    other = plan(tmp_path, ("[1.0, 1.2]", "[1.0, 1.1]"))
    with pytest.raises(ConfigurationError, match="has no result of the runs that mine plans"):
        found(other, here(other, ()), published, monkeypatch)
