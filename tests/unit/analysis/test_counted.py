"""Analyses that count samples, each against numbers worked out by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest
from stored import Sample, answered, inputs

from sage_cli.analysis.diversity import diversity as diversity_document
from sage_cli.analysis.diversity import variety
from sage_cli.analysis.graded_samples import skeleton
from sage_cli.analysis.lengths import lengths
from sage_cli.analysis.reliability import majority
from sage_cli.analysis.support import equal_k, support, support_ratios, thresholds
from sage_cli.errors import DataError
from sage_cli.metrics import Support

R, W = Sample(), Sample(status="wrong", extracted="5")
LOST = Sample(status="unparseable")


@pytest.mark.parametrize("parts", [1, 3])
def test_the_stream_pairs_problem_completion_and_grade(tmp_path, parts):
    own = answered(tmp_path, "p", {"a": [R, W], "b": [LOST]}, parts=parts)
    rows = {(row.problem.id, row.completion.index): row for row in own.rows()}
    assert [rows[key].grade.status for key in (("a", 0), ("a", 1), ("b", 0))] == [
        "right",
        "wrong",
        "unparseable",
    ]
    assert rows["a", 1].grade.extracted == "5"
    assert rows["b", 0].problem.question == "b?"
    assert (own.counts.n_P.tolist(), own.counts.c_P.tolist()) == ([2, 1], [1, 0])
    assert {row.problem.id for row in own.rows(["b"])} == {"b"}


def test_lengths_by_hand(tmp_path):
    cut = W._replace(tokens=48, reason="length")
    own = answered(
        tmp_path,
        "p",
        {
            "a": [R._replace(tokens=10), R._replace(tokens=20), cut],
            "b": [R._replace(tokens=6), W._replace(tokens=8), cut._replace(status="unparseable")],
        },
    )
    document = lengths(inputs(own))
    rows = {row["grade"]: row for row in document.data["lengths"]}
    assert list(rows) == ["all", "right", "wrong", "unparseable"]
    shown = [str(row.cells[2]) for row in document.tables[0].rows]
    assert shown == ["all", "correct", "wrong", "unparseable"]
    # right: a (10 + 20) / 2 = 15, b 6: mean 10.5; lengths 6, 10, 20
    assert rows["right"]["mean tokens"] == pytest.approx(10.5)
    assert (rows["right"]["completions"], rows["right"]["median"]) == (3, 10)
    assert rows["right"]["95th percentile"] == rows["right"]["longest"] == 20
    # all: one of three truncated on either problem
    assert rows["all"]["truncated"] == pytest.approx(1 / 3)
    assert rows["wrong"]["truncated"] == pytest.approx(0.5)
    assert rows["unparseable"]["truncated"] == 1.0


def test_majority_by_hand(tmp_path):
    # a: R R 5: maj@1 2/3; b: R 5 5, of which 5 is written in two ways that are one: maj@1 1/3
    spaced = Sample(status="wrong", extracted=" 5 ")
    own = answered(tmp_path, "p", {"a": [R, R, W, LOST], "b": [R, W, spaced, LOST]})
    document = majority(inputs(own, replace(own, policy="q")))
    found = {(row["measure"], row["policy"]): row["mean"] for row in document.data["measures"]}
    measures = [f"{name}@{k}" for name in ("maj", "pass") for k in (1, 2, 4)]
    assert list(dict.fromkeys(measure for measure, _ in found)) == measures
    assert found["maj@1", "p"] == pytest.approx((2 / 4 + 1 / 4) / 2)
    assert found["maj@4", "p"] == pytest.approx((1 + 0) / 2)
    # pass@2: a 1 - C(2,2)/C(4,2) = 5/6, b 1 - C(3,2)/6 = 1/2
    assert found["pass@2", "p"] == pytest.approx((5 / 6 + 1 / 2) / 2)
    assert {row["difference"] for row in document.data["differences"]} == {0.0}


def test_a_right_answer_without_extracted_text_still_votes(tmp_path):
    own = answered(tmp_path, "p", {"a": [R, LOST]})
    assert [row.final_answer for row in own.rows()] == ["right", None]


def test_skeletons_keep_the_calculation_and_drop_words_and_numbers():
    by_tens = "<start_working_out>S:47*60=2820;47*3=141;2820+141=2961<end_working_out>"
    assert skeleton(by_tens) == skeleton("S:12*90=1080;12*3=36;1080+36=1116")
    assert skeleton(by_tens) != skeleton(by_tens.replace("S:", "R:"))
    assert skeleton("S: 47*60=2820; then 47*3=141") == "S:#*#=##*#=#"
    assert skeleton("So we add 3 + 4.5 = 7.5") == skeleton("Adding gives 10+2,000 = 2,010!")
    assert skeleton(r"\frac{1}{2} of $x$") == r"\frac{#}{#}x"


def test_diversity_by_hand(tmp_path):
    one, two = Sample("D:1*1=1"), Sample("S:1+1=2")
    own = answered(tmp_path, "p", {"a": [one] * 8 + [two] * 8, "b": [one, W, W, LOST]})
    seen = variety(own)
    answers, entropy, skeletons = (
        seen.values(m)
        for m in ("different answers", "answer entropy (nats)", "skeletons of 8 right")
    )
    assert answers.tolist() == [1, 3]
    # b: right, 5, 5, none: 1.0397
    assert entropy.tolist() == pytest.approx([0.0, 1.0397207708])
    # of 16, 8 draws all miss one kind of 8 with 1/C(16,8) = 1/12870
    assert skeletons[0] == pytest.approx(2 - 2 / 12870, abs=1e-12)
    assert math.isnan(skeletons[1])


def test_diversity_compares_the_problems_that_all_can_show(tmp_path):
    one, two = Sample("D:1*1=1"), Sample("S:1+1=2")
    base = answered(tmp_path, "base", {"a": [one] * 8, "b": [one] * 8})
    run = answered(tmp_path, "run", {"a": [one] * 4 + [two] * 4, "b": [W] * 8})
    document = diversity_document(inputs(base, run))
    means = {(r["measure"], r["policy"]): r["mean"] for r in document.data["means"]}
    assert means["skeletons of 8 right", "base"] == 1.0
    assert means["skeletons of 8 right", "run"] == 2.0
    assert "(1 of 2 on arithmetic)" in document.notes[1]
    assert len(document.data["problems"]) == 4


def test_the_papers_leash_ratios_and_thresholds():
    def ids(count):
        return tuple(map(str, range(count)))

    found = Support(ids(3), ids(2), ids(17), (), 0, 0, (), (), 0, 0.95)
    # kept 17, gained 3, lost 2: 17/19, 3/20, harmonic mean, 1/22
    assert support_ratios(found) == pytest.approx(
        {"SRR": 0.895, "NDR": 0.150, "SDS": 0.257, "NSCR": 0.045}, abs=5e-4
    )
    nothing = support_ratios(Support((), (), (), ids(4), 0, 0, (), (), 0, 0.95))
    assert all(math.isnan(value) for value in nothing.values())
    # zeta .05, -ln .05 = 2.995732: over 256 .011702, over 8,192 3.657e-4; exact 1 - .05^(1/256)
    assert thresholds(256, 0.95) == pytest.approx({"exact": 0.011634, "paper": 0.011702}, abs=1e-6)
    assert thresholds(8192, 0.95)["paper"] == pytest.approx(3.66e-4, abs=1e-6)


def test_unequal_numbers_of_samples_are_refused(tmp_path):
    base = answered(tmp_path, "base", {"a": [R] * 4, "b": [W] * 4})
    run = answered(tmp_path, "run", {"a": [R] * 3, "b": [W] * 2})
    assert equal_k([base]) == 4
    with pytest.raises(DataError, match=r"unequal .*\(base 4, run 2 to 3\)") as refused:
        support(inputs(base, run))
    assert "sage passk BASE RUN... --n N" in refused.value.next_step


def test_support_says_what_so_many_samples_detect(tmp_path):
    base = answered(tmp_path, "base", {"a": [R, R], "b": [R, W]})
    found = support(inputs(base, answered(tmp_path, "run", {"a": [R, W], "b": [W, W]}))).data
    # zeta .05, k 2: 1 - sqrt(.05)
    assert found["thresholds"]["arithmetic"]["k"] == 2
    assert found["thresholds"]["arithmetic"]["exact"] == pytest.approx(1 - math.sqrt(0.05))


def test_support_as_a_document(tmp_path):
    base = answered(tmp_path, "base", {"a": [W] * 4, "b": [R, W, W, W], "c": [R, R, R, W]})
    run = answered(tmp_path, "run", {"a": [R, W, W, W], "b": [W] * 4, "c": [R] * 4})
    document = support(inputs(base, run, deltas=(0.0, 0.5)))
    (found,) = document.data["runs"]
    at_zero, at_half = found["support"]
    assert (at_zero["gained"], at_zero["lost"], at_zero["kept"]) == (["a"], ["b"], ["c"])
    assert (at_half["kept"], at_half["absent"]) == (["c"], ["a", "b"])
    assert len(document.sheets["support-problems"].rows) == 6


def test_support_pairs_the_samples_of_equal_evaluation_seeds_and_no_others(tmp_path):
    base = answered(tmp_path, "base", {"a": [W] * 6, "b": [R, W] * 3})
    run = answered(tmp_path, "run", {"a": [R] * 6, "b": [R, W] * 3})
    document = support(inputs(base, run))
    (found,) = document.data["runs"][0]["support"][:1]
    assert found["paired"]
    # all six pairs differ: none for the run in 1 of 64 swaps, and none for the base in 1 of 64
    assert found["gained_by_chance"] == pytest.approx(1 / 64)
    assert "McNemar's exact test" in document.notes[1]
    elsewhere = answered(tmp_path, "run", {"a": [R] * 6, "b": [R, W] * 3}, seed=1)
    document = support(inputs(base, elsewhere))
    (found,) = document.data["runs"][0]["support"][:1]
    assert not found["paired"]
    # six right ones of twelve, none among six: 1 / C(12, 6) for a; b's are never all on one side
    # but 1 of C(12, 6), too
    assert found["gained_by_chance"] == pytest.approx(2 / 924)
    assert "Fisher's exact test" in document.notes[1]


def test_every_document_is_written_in_all_its_forms(tmp_path):
    base = answered(tmp_path, "base", {"a": [W] * 4, "b": [R, W, W, W], "c": [R, R, R, W]})
    run = answered(tmp_path, "run", {"a": [R, W, W, W], "b": [W] * 4, "c": [R] * 4})
    for of in (support, lengths, majority, diversity_document):
        report = of(inputs(base, run)).write(tmp_path / of.__name__)
        written = {file.suffix for file in report.files}
        assert written >= {".json", ".md", ".csv", ".png", ".svg"}
        assert all(file.stat().st_size > 100 for file in report.files)


def test_means_have_no_interval_where_there_is_one_problem(tmp_path):
    own = answered(tmp_path, "p", {"a": [R, W]})
    (row,) = [r for r in lengths(inputs(own)).data["lengths"] if r["grade"] == "all"]
    assert row["mean tokens"] == 5.0
    assert np.isnan(row.get("mean tokens low") or math.nan)
