"""Analyses of what a model said of samples, and of modes, against numbers worked out by hand."""

import math

import numpy as np
import pytest
from stored import Sample, answered, inputs

from sage_cli.analysis.analysis import Inputs, Options
from sage_cli.analysis.diversity import generator_with_modes, mode_shares, modes
from sage_cli.analysis.entropy import entropies, entropy
from sage_cli.analysis.perplexity import beyond, beyond_others, perplexities, perplexity
from sage_cli.errors import DataError
from sage_cli.problems.arithmetic import Arithmetic


def surprising(perplexity_, status="right"):
    return Sample(status=status, surprisal=math.log(perplexity_))


def test_perplexity_by_hand(tmp_path):
    base = answered(tmp_path, "base", {"a": [surprising(p) for p in (1, 2, 3, 4)]})
    run = answered(
        tmp_path, "run", {"a": [surprising(p, s) for p, s in ((2, "right"), (5, "wrong")) * 2]}
    )
    own = perplexities(run)
    assert own[False][0].tolist() == pytest.approx([2, 5, 2, 5])
    assert own[True][0].tolist() == pytest.approx([2, 2])
    document = perplexity(inputs(base, run))
    found = {(r["measure"], r["policy"]): r["value"] for r in document.data["perplexity"]}
    # mean of the logs: base ln 24 / 4, run (ln 2 + ln 5) / 2; of the right ones ln 2
    assert found["mean log", "base"] == pytest.approx(math.log(24) / 4)
    assert found["mean log", "run"] == pytest.approx(math.log(10) / 2)
    assert found["mean log, right ones", "run"] == pytest.approx(math.log(2))
    # the base's 95 % quantile is its largest value, 4: half of the run's lie beyond; of the base's
    # own only 4 exceeds the largest of the others
    assert found["beyond the base's 95%", "base"] == 0.25
    assert found["beyond the base's 95%", "run"] == 0.5
    assert found["beyond the base's 95%, right ones", "run"] == 0.0
    assert found["50% quantile", "run"] == pytest.approx(3.5)


def test_a_tail_needs_values_on_both_sides_and_may_be_the_bases():
    assert math.isnan(beyond(np.array([]), np.array([1.0]), 0.95))
    assert math.isnan(beyond(np.array([1.0]), np.array([]), 0.95))
    draw = np.random.default_rng(0)
    own = other = 0.0
    for _ in range(4000):
        base, same = draw.normal(size=(2, 64))
        own += beyond_others(base, 0.99) / 4000
        other += beyond(same, base, 0.99) / 4000
    # of 64 values the 99 % quantile is the largest: 1 of 64, and 1 of 65; deviations below .0004
    assert own == pytest.approx(1 / 64, abs=1e-12)
    assert other == pytest.approx(1 / 65, abs=0.002)


def test_entropies_by_hand(tmp_path):
    wrong, silent = Sample(status="wrong", extracted="5", entropy=0.1), Sample(entropy=math.nan)
    own = answered(
        tmp_path,
        "p",
        {"a": [Sample(entropy=0.3), wrong], "b": [wrong, wrong], "c": [silent] * 2},
        parts=2,
    )
    token_P, answer_P = entropies(own)
    assert token_P[:2].tolist() == pytest.approx([0.2, 0.1])
    assert math.isnan(token_P[2])  # completions without tokens
    assert answer_P.tolist() == pytest.approx([math.log(2), 0.0, 0.0])
    document = entropy(inputs(own))
    means = {row["entropy"]: row["mean"] for row in document.data["means"]}
    assert means["token entropy (nats)"] == pytest.approx(0.15)
    assert len(document.data["problems"]) == 3


def test_samples_that_nobody_read_are_not_passed_over(tmp_path):
    own = answered(tmp_path, "p", {"a": [Sample(), Sample(status="wrong")]})
    other = answered(tmp_path, "q", {"a": [Sample(), Sample()]})
    own.scores[0]._tables = other.scores[0]._tables  # those of another set's parts
    with pytest.raises(ValueError, match="2 samples have a grade and no values"):
        list(own.scored_rows())


def test_modes_by_hand(tmp_path):
    s, r = Sample("<start_working_out>S:1"), Sample("R:1")
    wrong = Sample("S:2", "wrong")
    none = Sample("Z", "wrong")
    own = answered(tmp_path, "p", {"a": [s, r, wrong, none], "b": [wrong, wrong, wrong, r]})
    shares = mode_shares(own, Arithmetic)
    assert shares["S"]["share of samples"].tolist() == [0.5, 0.75]
    assert shares["S"]["right if taken"].tolist() == [0.5, 0.0]
    assert shares["R"]["share of right ones"].tolist() == [0.5, 1.0]
    assert shares["other"]["share of samples"].tolist() == [0.25, 0.0]
    assert np.isnan(shares["D"]["right if taken"]).all()
    document = modes(Inputs({"arithmetic": (own,)}, options=Options(resamples=200)))
    found = {row["mode"]: row["value"] for row in document.data["modes"]}
    assert found["S: share of samples"] == pytest.approx(0.625)
    assert document.notes[0] == (
        "modes of arithmetic: S: splits the second factor, R: swaps the factors and splits the "
        "first, D: writes the product in one step (a guess); other: does not say its mode"
    )
    printed = [str(row.cells[0]) for row in document.tables[0].rows]
    assert printed[:3] == ["S: share of samples", "S: correct if taken", "S: share of the correct"]


def test_modes_have_words_and_need_problems_that_announce_them(tmp_path):
    kind = generator_with_modes("arithmetic")
    assert list(kind.mode_words) == list(kind.modes)
    assert generator_with_modes("arithmetic-dev") is Arithmetic
    for name in ("kk-generated", "aime", str(tmp_path / "mine.csv")):
        with pytest.raises(DataError, match="do not state which method of solution they use"):
            generator_with_modes(name)


def test_pictures_of_what_was_read(tmp_path):
    base = answered(tmp_path, "base", {id_: [surprising(p) for p in (1, 2)] for id_ in "abcde"})
    run = answered(tmp_path, "run", {id_: [surprising(p) for p in (2, 3)] for id_ in "abcde"})
    few = answered(tmp_path, "few", {"a": [surprising(2), surprising(9)]})
    for of, answers in ((perplexity, (base, run)), (perplexity, (few,)), (entropy, (base, run))):
        report = of(inputs(*answers)).write(tmp_path / f"{of.__name__}{len(answers)}")
        assert all(file.stat().st_size > 100 for file in report.files)
