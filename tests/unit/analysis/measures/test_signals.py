"""Signals by class, words and the overlap of marks, by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from answered import Sample, answered

from sage_cli.analysis.analysis import Inputs, Options
from sage_cli.analysis.measures import signals as measure
from sage_cli.analysis.measures.signals import marked, means_by_problem, signals, uncertain_words
from sage_cli.analysis.texts import CLASSES
from sage_cli.analysis.token_signals import refuse_unknown_signals
from sage_cli.analysis.token_table import TokenRow, TokenTable, token_table
from sage_cli.errors import ConfigurationError
from sage_cli.guides import BranchGuide, Guide, RapoGuide
from sage_cli.progress import Silent

WORD, NUMBER = CLASSES.index("word"), CLASSES.index("number")


def table(**changed: Any) -> TokenTable:
    """Five tokens of problem 0 and five of problem 1; of a third problem none."""
    columns: dict[str, Any] = {
        "problems": 3,
        "words": ("so", "x"),
        "problem_T": np.repeat([0, 1], 5),
        "class_T": np.array([WORD, WORD, NUMBER, NUMBER, NUMBER] + [WORD] * 5),
        "word_T": np.array([0, 1, -1, -1, -1, 0, 0, 0, 1, 1]),
        "surprisal_T": np.arange(10.0),
        "entropy_T": np.array([4.0, 0, 0, 1, 0, 2, 2, 2, 0, 1]),
        "log_q_T": {"mine": np.array([0.3, 0, 0, 0.1, 0, 0.2, 0, 0, 0, 0])},
    }
    return TokenTable(**{**columns, **changed})


def inputs(*tables: TokenTable, guides: tuple[Guide, ...] = ()) -> Inputs:
    named = {("arithmetic", f"p{place}"): one for place, one in enumerate(tables)}
    return Inputs(tokens=named, options=Options(resamples=200, guides=guides, temperature=0.7))


def test_marks_and_means_by_hand():
    marks = marked(table())
    # the 80 % quantile of 0..9 is 7.2, that of the entropies 0 0 0 0 1 1 2 2 2 4 is 2
    assert np.flatnonzero(marks["high surprisal"][0]).tolist() == [8, 9]
    assert np.flatnonzero(marks["high entropy"][0]).tolist() == [0]
    assert np.flatnonzero(marks["mine"][0]).tolist() == [0, 3, 5]
    means_P = means_by_problem(table(), table().entropy_T, table().class_T == WORD)
    # (4 + 0) / 2, (2 + 2 + 2 + 0 + 1) / 5, none
    assert means_P[:2].tolist() == pytest.approx([2.0, 1.4])
    assert math.isnan(means_P[2])


def test_tables_by_hand(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(measure, "LEAST", 3)
    document = signals(inputs(table(), guides=(BranchGuide(tau=0.5),)))
    assert document.data["guides"]["branch"].startswith("branch (tau 0.5, ")
    classes = {row["class"]: row for row in document.data["classes"]}
    assert list(classes) == ["word", "number"]
    # shares 2/5 and 5/5; entropies 2 and 1.4; marked by the guide 1 of 2 and 1 of 5
    assert classes["word"]["share of tokens"] == pytest.approx(0.7)
    assert classes["word"]["entropy"] == pytest.approx(1.7)
    # numbers are in problem 0 alone: one of three is marked, with log q .1
    assert classes["number"]["entropy"] == pytest.approx(1 / 3)
    assert classes["number"]["q ≠ 1: mine"] == pytest.approx(1 / 3)
    assert classes["number"]["log q: mine"] == pytest.approx(0.1 / 3)
    assert classes["number"]["share of tokens"] == pytest.approx(0.3)
    # (.5 + 0) / 2, and 2 of 5 of problem 1
    assert classes["word"]["high entropy"] == pytest.approx(0.25)
    assert classes["word"]["high surprisal"] == pytest.approx(0.2)
    words = document.data["words"]
    # so: 4 tokens, entropies 4 | 2 2 2; x: 3 tokens, 0 | 0 1
    assert [(row["word"], row["tokens"]) for row in words] == [("so", 4), ("x", 3)]
    assert [row["entropy"] for row in words] == pytest.approx([3.0, 0.25])
    assert document.data["temperature"] == 0.7


def test_overlap_by_hand():
    document = signals(inputs(table()))
    overlap = {(row["one"], row["other"]): row for row in document.data["overlap"]}
    assert list(overlap) == [
        ("mine", "high surprisal"), ("mine", "high entropy"), ("high surprisal", "high entropy"),
    ]  # fmt: skip
    of_entropy = overlap["mine", "high entropy"]
    # problem 0: {0, 3} and {0}: 1/2; problem 1: {5} and {}: 0; the third has none
    assert of_entropy["Jaccard"] == pytest.approx(0.25)
    # shares .4 and .2: .08 / (.6 - .08); none in problem 1
    assert of_entropy["by chance"] == pytest.approx(0.08 / 0.52 / 2)
    # problem 0: agreement .8, expected .08 + .48; problem 1: agreement .8 = expected, kappa 0
    assert of_entropy["kappa"] == pytest.approx((0.8 - 0.56) / 0.44 / 2)
    # problem 0: log q and entropy rank alike; problem 1: ranks 5 2.5 2.5 2.5 2.5 and 4 4 4 1 2,
    # whose products of deviations sum to 2 - .5 + (-.5) + (-.5)(-2) ... = 2.5, squares 5 and 8
    first, second = 1.0, 2.5 / math.sqrt(5 * 8)
    assert of_entropy["rank correlation"] == pytest.approx((first + second) / 2)


def test_words_are_those_of_the_highest_mean_entropy(monkeypatch: pytest.MonkeyPatch):
    assert uncertain_words(table()) == []
    monkeypatch.setattr(measure, "LEAST", 3)
    assert uncertain_words(table()) == ["so", "x"]
    monkeypatch.setattr(measure, "WORDS", 1)
    assert uncertain_words(table()) == ["so"]


def test_a_report_of_two_policies_with_a_picture(tmp_path):
    empty = table(
        **{name: np.zeros(0) for name in ("surprisal_T", "entropy_T")},
        **{name: np.zeros(0, int) for name in ("problem_T", "class_T", "word_T")},
        log_q_T={"mine": np.zeros(0)},
    )
    report = signals(inputs(table(), table(), empty)).write(tmp_path / "report")
    assert all(file.stat().st_size > 100 for file in report.files)


def rows(answers: Any, **others: Any) -> list[TokenRow]:
    """A policy that finds "so" uncertain; a token is a character's number."""
    found = []
    for sample in answers.rows():
        ids = list(map(ord, sample.completion.text))
        entropy = [2.2 if chr(id_) == "s" else 0.0 for id_ in ids]
        logps = [-one - 1 for one in entropy]
        found.append(TokenRow(sample, ids, (logps, entropy), **others))
    return found


def test_the_tokens_of_stored_samples(tmp_path):
    samples = {"a": [Sample("so 1"), Sample("")], "b": [Sample("2", "wrong"), Sample("s=")]}
    own = answered(tmp_path, "p", samples)
    guide = BranchGuide(tau=1.2, rho=0.3)
    found = token_table(rows(own), own, chr, [guide], Silent())
    assert [CLASSES[kind] for kind in found.class_T] == [
        "connective", "rest of a word", "space", "number", "number", "word", "operator",
    ]  # fmt: skip
    assert found.problem_T.tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert [found.words[word] for word in found.word_T if word >= 0] == ["so", "s"]
    assert found.surprisal_T.tolist() == pytest.approx([3.2, 1, 1, 1, 1, 3.2, 1])
    # 1 + .3 (2.2 - 1.2)
    of_branch = found.log_q_T["branch"].tolist()
    assert of_branch == pytest.approx([math.log(1.3), 0, 0, 0, 0, math.log(1.3), 0], abs=1e-6)


def test_guides_read_the_reference_by_the_exponent_of_the_rows_grade(tmp_path):
    own = answered(tmp_path, "p", {"a": [Sample("1"), Sample("2", "wrong")]})
    guide = RapoGuide(q_min=0.01, q_max=100)
    wrong, right = guide.exponents
    references = {phi: ([-1.0 - phi], [0.5]) for phi in {1.0, wrong, right}}
    found = token_table(rows(own, references=references), own, chr, [guide], Silent())
    # log pi^phi - log pi: (-1 - phi) - (-2) = 1 - phi
    log_q = {bool(phi == 1): 1 - phi for phi in (wrong, right)}
    assert sorted(found.log_q_T["rapo"]) == pytest.approx(sorted(log_q.values()), abs=1e-6)
    by_reference = BranchGuide(tau=0.4, rho=1, signal="reference")
    found = token_table(rows(own, references=references), own, chr, [by_reference], Silent())
    assert found.log_q_T["branch"] == pytest.approx([math.log(1.1)] * 2)  # 1 + (.5 - .4)


def test_guides_of_a_training_are_refused_by_name():
    class Knowing(BranchGuide):
        needs = frozenset({"rewards_B"})

    with pytest.raises(ConfigurationError, match="guide 'branch' reads rewards_B"):
        refuse_unknown_signals([Knowing()])
