"""The report of `sage eval`."""

import math

import numpy as np
import pytest

from sage_cli.errors import ConfigurationError
from sage_cli.metrics import Counts
from sage_cli.metrics.counts import SeedCounts
from sage_cli.reports.estimate import Estimate
from sage_cli.reports.evaluation import evaluation_document, evaluation_table, score
from sage_cli.reports.provenance import BenchmarkUsed, GraderUsed, Provenance
from sage_cli.reports.tables import without_details


def counts(*c):
    return Counts(tuple(f"p{i}" for i in range(len(c))), np.full(len(c), 4), np.array(c))


def test_mean_and_deviation_over_seeds():
    # pass@1 of the seeds: 1/4, 3/4 -> mean 1/2, sd sqrt(2 * (1/4)^2 / 1) = 0.353553
    scores = score({"aime": [counts(1, 1), counts(2, 4)], "amc23": [counts(4)]}, (1, 4))
    assert scores["aime"][1].value == pytest.approx(0.5, abs=1e-15)
    assert scores["aime"][1].sd == pytest.approx(math.sqrt(1 / 8), abs=1e-15)
    assert scores["aime"][4] == Estimate(1.0, 0.0)
    assert math.isnan(scores["amc23"][1].sd or 0)


def test_the_average_is_unweighted_and_needs_several_benchmarks_and_all():
    ours = {"aime": {1: Estimate(0.1, 0.01)}, "amc23": {1: Estimate(0.5)}}
    table = evaluation_table(
        "t", {"ours": ours}, {"paper": {"theirs": {"aime": {1: Estimate(0.3, 0.02)}}}}
    )
    assert [(c.group, c.name) for c in table.columns] == [
        ("", "model"),
        ("aime", "pass@1"),
        ("amc23", "pass@1"),
        ("average", "pass@1"),
    ]
    assert [str(cell) for cell in table.rows[0].cells] == [
        "ours",
        "0.100 ± 0.010",
        "0.500",
        "0.300",
    ]
    assert [str(c) for c in table.rows[1].cells] == ["theirs", "0.300 ± 0.020", "–", "–"]
    assert table.rows[1].section == "paper"
    table = evaluation_table("t", {"ours": {"aime": {1: Estimate(0.1), 8: Estimate(0.2)}}})
    assert [column.name for column in table.columns] == ["model", "pass@1", "pass@8"]


def test_of_many_ks_the_terminal_shows_the_powers_of_two():
    table = evaluation_table("t", {"ours": {"aime": {k: Estimate(0.1) for k in range(1, 10)}}})
    assert len(table.columns) == 10
    shown = [column.name for column in without_details(table).columns]
    assert shown == ["model", "pass@1", "pass@2", "pass@4", "pass@8"]


def measured(policy, benchmark, seed, *c):
    statuses = {"right": sum(c), "wrong": 4 * len(c) - sum(c)}
    return SeedCounts(policy, benchmark, seed, counts(*c), statuses, 1, f"set-{policy}-{seed}")


BY_BENCHMARK = {
    ("aime", "ours"): [measured("ours", "aime", 0, 1, 1), measured("ours", "aime", 1, 2, 4)],
    ("amc23", "ours"): [measured("ours", "amc23", 0, 4), measured("ours", "amc23", 1, 4)],
}


def test_the_document_holds_numbers_the_counts_behind_them_and_the_grades():
    provenance = Provenance(
        benchmarks=(BenchmarkUsed("aime", 2, grader=GraderUsed("strict")),),
        sampling={"temperature": 0.6, "min_p": 0.01, "top_p": 1.0, "top_k": 0, "max_tokens": 48},
        n=4,
        seeds=(0, 1),
    )
    document = evaluation_document(BY_BENCHMARK, (1, 4), provenance)
    (row,) = document.data["rows"]
    # as above: mean 1/2, sd sqrt(1/8); the average of k = 1 is (1/2 + 1) / 2
    assert row["model"] == "ours"
    assert row["aime pass@1"] == pytest.approx(0.5, abs=1e-15)
    assert row["aime pass@1 sd"] == pytest.approx(math.sqrt(1 / 8), abs=1e-15)
    assert row["average pass@1"] == pytest.approx(0.75, abs=1e-15)
    # ... and the seeds' averages are (1/4 + 1)/2 and (3/4 + 1)/2, with deviation sqrt(1/8)/2
    assert row["average pass@1 sd"] == pytest.approx(math.sqrt(1 / 8) / 2, abs=1e-15)
    first = document.data["measurements"][0]
    assert (first["benchmark"], first["policy"]) == ("aime", "ours")
    assert first["seeds"][1]["problems"][1] == {"problem": "p1", "n": 4, "c": 4}
    assert document.all_notes[-1] == (
        "temperature 0.6, min_p 0.01, max_tokens 48; n 4, evaluation seeds 0, 1; "
        "aime (2 problems); grading strict"
    )
    assert (
        document.notes[0]
        == "ours on aime, evaluation seed 0: 2 correct, 6 wrong; of all, 1 is truncated"
    )
    assert len(document.notes) == 4


def test_rows_of_the_paper_name_its_model_and_its_table():
    document = evaluation_document(BY_BENCHMARK, (1, 4), Provenance(), paper="table1")
    assert document.data["rows"][1]["model"] == "base (paper, Qwen2.5-Math-7B-Base)"
    assert document.data["rows"][1]["aime pass@1"] == 0.033
    assert document.data["rows"][1]["aime pass@4"] is None
    assert document.tables[0].notes[0].startswith("(paper): table1 of SAGE")
    with pytest.raises(ConfigurationError, match="no evaluation table 'table1_main'"):
        evaluation_document(BY_BENCHMARK, (1,), Provenance(), paper="table1_main")


def test_the_papers_protocol_takes_k_samples_a_problem_and_has_its_own_deviation():
    # two problems, 4 samples each; of each seed the first sample alone: 1 and 2 of 2 right, while
    # all samples say pass@1 = 1/4 and 3/4
    first_alone = [Counts(("p0", "p1"), [1, 1], right) for right in ([1, 0], [1, 1])]
    all_four = [counts(1, 1), counts(2, 4)]
    k_samples = {
        ("aime", "ours"): {1: first_alone, 4: all_four},
        ("amc23", "ours"): {1: [Counts(("p0",), [1], [0])] * 2, 4: [counts(4), counts(4)]},
    }
    document = evaluation_document(BY_BENCHMARK, (1, 4), Provenance(), k_samples=k_samples)
    ours, published = document.data["rows"]
    assert ours["model"] == "ours"
    assert published["model"] == "ours (paper's protocol)"
    # 1/2 and 1: mean 3/4, deviation with n - 1 sqrt(2 * (1/4)^2 / 1)
    assert published["aime pass@1"] == pytest.approx(0.75, abs=1e-15)
    assert published["aime pass@1 sd"] == pytest.approx(math.sqrt(1 / 8), abs=1e-15)
    assert published["aime pass@4"] == ours["aime pass@4"] == 1.0
    # the average of 3/4 and 0
    assert published["average pass@1"] == pytest.approx(0.375, abs=1e-15)
    notes = document.tables[0].notes
    assert "pass@1 from one sample" in notes[0]
    assert "over 2 evaluation seeds, with n - 1" in notes[0]
    assert "that of 4 samples per problem" in notes[1]
    assert len(notes) == 2


def test_one_seed_has_no_deviation_and_says_what_to_type():
    one = {("aime", "ours"): [measured("ours", "aime", 0, 1, 1)]}
    k_samples = {("aime", "ours"): {1: [Counts(("p0", "p1"), [1, 1], [1, 0])]}}
    document = evaluation_document(one, (1,), Provenance(), k_samples=k_samples)
    assert document.tables[0].notes[-1].endswith("--protocol paper uses five")
    assert "aime pass@1 sd" not in document.data["rows"][1]
