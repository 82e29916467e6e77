""""""

import warnings
from dataclasses import replace
from textwrap import wrap

import numpy as np
import pytest
from scipy.stats import t

from sage_cli.metrics import Counts, Crossing, Side, compare_sides, find_crossing
from sage_cli.metrics.counts import SampleGrades
from sage_cli.reports.comparison.contrast import contrast_of_curves
from sage_cli.reports.comparison.notes import crossing_notes
from sage_cli.reports.comparison.numbers import comparison_json
from sage_cli.reports.comparison.report import comparison_document
from sage_cli.reports.document import markdown
from sage_cli.reports.provenance import Provenance
from sage_cli.reports.table_files import to_csv

KS = (1, 2, 4)


def counts(c_P):
    return Counts(tuple(f"p{i}" for i in range(len(c_P))), np.full(len(c_P), 4), np.array(c_P))


SIDES = Side("grpo", ([counts([4, 0])],)), Side("base", ([counts([1, 1])],))


def test_table_and_notes():
    document = comparison_document({"aime": compare_sides(*SIDES, KS)}, Provenance())
    table = document.tables[0]
    assert table.title == "grpo against base on aime: two models"
    cells = [[str(cell) for cell in row.cells] for row in table.rows]
    assert [row[:3] for row in cells] == [
        ["1", "0.500", "0.250"],
        ["2", "0.500", "0.500"],
        ["4", "0.500", "1.000"],
    ]
    assert cells[0][3].startswith("+0.250 [")
    # deviation of the gaps sqrt(1/2), error 1/2; t[.975] = 12.7062 and t[.8] = 1.37638 with one
    # degree of freedom: (12.7062 + 1.3764) / 2 = 7.04, more than any difference of pass@k
    assert cells[0][5] == "–"
    # gaps of 3/4 and -1/4: half of the resamples hold one problem alone and have no variance
    assert float(cells[0][6]) == pytest.approx(0.5, abs=0.05)
    assert table.notes[0] == (
        "95% intervals over 2 problems, paired; they describe these two models, not their methods: "
        "another training seed gives another model"
    )
    assert document.data["comparisons"]["aime"]["about"] == "models"
    assert table.notes[1].startswith("no crossing is established: ")
    assert table.notes[2].startswith("crossing: estimate 2, 95% interval ")
    assert table.notes[3].startswith(
        "0 problems were solved by grpo and never by base, and 1 by base and never by grpo ("
    )
    assert table.notes[4].startswith(
        "by Fisher's test, adjusted by Holm, at 95% confidence: 0 problems "
    )
    assert table.notes[5].startswith("both solved 1 problem and neither solved 0 ")


def test_the_terminal_has_what_decides_the_reading_and_the_files_everything():
    sides = Side("rl", ([graded(["0111", "0011"], 0)],)), Side("sft", ([graded(["0011"] * 2, 0)],))
    document = comparison_document({"aime": compare_sides(*sides, KS)}, Provenance())
    shown = document.essentials
    assert [table.title for table in shown.tables] == ["rl against sft on aime: two models"]
    notes = [*shown.tables[0].notes, *shown.notes]
    begin = (
        "95% intervals",
        "no crossing",
        "0 problems were solved by rl",
        "at k = n = 4",
        "quote the difference",
        "detectable:",
        "p (Holm)",
    )
    assert len(notes) == len(begin)
    for note, words in zip(notes, begin, strict=True):
        assert note.startswith(words)
    assert notes[5].endswith("a smaller true difference may have gone unnoticed")
    text = markdown(document)
    for word in ("Bloom 1995", "Gaffke", "share their random numbers"):
        assert word in text
        assert word not in markdown(shown)


def test_the_verdict_comes_first_with_the_difference_that_would_have_been_found():
    generator = np.random.default_rng(2)
    p_P = generator.beta(2, 2, PROBLEMS)
    c_P = generator.binomial(16, p_P)
    one_more_or_less = np.clip(c_P + np.resize([1, -1], PROBLEMS), 0, 16)
    base, same = replace(many(c_P), label="sft"), replace(many(one_more_or_less), label="rl")
    better = replace(many(generator.binomial(16, p_P**0.2)), label="rl")

    def verdicts(side, ks):
        one = compare_sides(side, base, ks)
        document = comparison_document({"aime": one}, Provenance())
        assert document.data["verdicts"] == list(document.verdicts)
        assert markdown(document).index(document.verdicts[0]) < markdown(document).index("| k |")
        return one.difference, document

    gap, document = verdicts(better, (1,))
    cell = f"rl − sft = +{gap.mean_K[0]:.3f} [{gap.low_K[0]:.3f}, {gap.high_K[0]:.3f}]"
    assert document.verdicts == (f"At k = 1 rl is above sft: {cell}, p = {gap.p_K[0]:#.2g}.",)
    # one test has no adjusted p, and one k no crossing
    assert "p (Holm)" not in [column.name for column in document.essentials.tables[0].columns]
    assert not any("cross" in note or "Holm" in note for note in document.essentials.all_notes)
    assert not any("crossing" in note for note in document.tables[0].notes)

    gap, document = verdicts(same, (1,))
    detectable = document.data["comparisons"]["aime"]["smallest_detectable"][0]
    assert document.verdicts[0].startswith("At k = 1 no difference is found: rl − sft = ")
    assert document.verdicts[0].endswith(
        f"p = {gap.p_K[0]:#.2g}; a difference of {detectable:.3f} would have been found in 80% of "
        "repetitions."
    )
    _, document = verdicts(same, (1, 2, 4, 8))  # of more than three k the first and the last
    assert [verdict.split()[3] for verdict in document.verdicts] == ["1", "8"]
    assert all("p (Holm) = " in verdict for verdict in document.verdicts)


def test_what_a_comparison_is_about_stands_in_its_title_its_note_and_its_data():
    runs = tuple([counts(right)] for right in ([4, 0, 1, 3], [3, 1, 1, 4]))
    base, one = Side("base", ([counts([1, 1, 0, 2])],), base=True), Side("rl", runs[:1])
    several = Side("grpo", runs)
    titles, notes, told = [], [], []
    for pair in (
        (several, base),
        (base, several),
        (several, replace(several, label="dapo")),
        (several, one),
    ):
        document = comparison_document({"aime": compare_sides(*pair, (1,))}, Provenance())
        titles.append(document.tables[0].title.rpartition(": ")[2])
        notes.append(document.tables[0].notes[0])
        told.append(document.data["comparisons"]["aime"]["about"])
    assert titles == ["method and this base"] * 2 + ["methods", "these models"]
    assert told == ["methods", "methods", "methods", "models"]
    level = "95% intervals over 4 problems and"
    assert (
        notes[0]
        == f"{level} 2 training seeds of grpo; both are random, and base is one fixed model"
    )
    assert notes[1] == notes[0]
    assert notes[2] == f"{level} 2 against 2 training seeds; both are random"
    assert notes[3].endswith("rl is one fixed model")


def few_gain_a_little():
    """60 problems, of which every second is solved once more in 100 samples."""
    c_P = np.where(np.arange(60) % 2 == 0, 31, 30)
    return Side("rl", ([Counts(tuple(map(str, range(60))), np.full(60, 100), c_P)],))


def test_the_safe_interval_stands_beside_and_warns_where_it_holds_zero():
    base = Side("base", ([Counts(tuple(map(str, range(60))), np.full(60, 100), np.full(60, 30))],))
    one = compare_sides(few_gain_a_little(), base, (1, 2))
    document = comparison_document({"aime": one}, Provenance())
    table = document.tables[0]
    place = [column.name for column in table.columns].index("safe")
    low, high = table.rows[0].cells[place].interval
    # an unseen share of 1 - .025^(1/60) = 6% might have lost everything
    assert -0.07 < low < -0.04 < 0 < high
    assert low < 0 < high
    assert str(table.rows[0].cells[place]) == f"[−{-low:.3f}, {high:.3f}]"
    written = comparison_json(one, contrast_of_curves(one))
    assert written["p"][0] <= 0.05
    assert written["fragile"][:2] == [True, True]
    assert written["safe"][0] == pytest.approx((low, high))
    (note,) = [
        note for note in table.notes if "conservative interval, which" in " ".join(note.split())
    ]
    assert note.startswith("at k = 1, 2 the paired test finds a difference, but the conservative")
    assert to_csv(document.sheets["compare-aime"]).splitlines()[0].count("safe low") == 1


def graded(rows, seed):
    right_PN = np.array([[sample == "1" for sample in row] for row in rows])
    ids = tuple(f"p{i}" for i in range(len(rows)))
    n_P = np.full(len(rows), right_PN.shape[1])
    return Counts(ids, n_P, right_PN.sum(axis=1), SampleGrades((seed,), right_PN))


@pytest.mark.parametrize(
    ("seed", "test", "shared"),
    [
        (0, "McNemar's", "both sides share their random numbers"),
        (1, "Fisher's", "the two sides have different evaluation seeds"),
    ],
)
def test_whether_random_numbers_are_shared_is_said(seed, test, shared):
    run = Side("rl", ([graded(["0111", "0011"], 0)],))
    base = Side("base", ([graded(["0011", "0001"], seed)],))
    one = compare_sides(run, base, (1, 2))
    notes = comparison_document({"aime": one}, Provenance()).tables[0].notes
    assert sum(note.startswith(shared) for note in notes) == 1
    assert sum(f"by {test} test, adjusted" in note for note in notes) == 1
    assert comparison_json(one, contrast_of_curves(one))["support"].paired == (seed == 0)
    # covariances 1/2 - 3/8 and 1/4 - 1/8; deviations sqrt(3/16 x 1/4), twice: 1/4 / (sqrt(3)/4)
    assert any("within a problem is 0.58" in note for note in notes) == (seed == 0)


def test_only_an_established_crossing_is_told_and_the_data_has_the_estimate():
    crossing = find_crossing(counts([1] * 9), counts([3] * 9), KS[:2])
    assert crossing_notes(("a", "b"), crossing, KS[:2]) == [
        "no crossing is established: b is not below a at any k",
        "crossing: 95% interval beyond 2 to beyond 2; 0% of the resampled sets of problems cross",
    ]
    equal = find_crossing(counts([1] * 9), counts([1] * 9), KS)
    assert "no crossing" in crossing_notes(("a", "b"), equal, KS)[0]
    found = Crossing("a", 4.04, 2.9, 6.1, 1.0, 0.95, established=True)
    share = "100% of the resampled sets of problems cross"
    assert crossing_notes(("rl", "sft"), found, KS) == [
        "rl leads at small k and sft at large k: they cross at k = 2.9 to 6.1 (95% interval)",
        "crossing: estimate 4.04; quote the interval, because the estimate of a late crossing is "
        f"too low; {share}",
    ]
    assert crossing_notes(("rl", "sft"), replace(found, established=False), KS) == [
        "no crossing is established: the curves cross near k = 4.04, but the lead before or after "
        "it may be due to chance",
        f"crossing: estimate 4.04, 95% interval 2.9 to 6.1; {share}",
    ]
    one = compare_sides(*SIDES, KS)
    written = comparison_json(one, contrast_of_curves(one))["crossing"]
    assert (written.k, written.established) == (pytest.approx(2, abs=1e-12), False)


def test_people_read_the_powers_of_two_and_programs_every_k():
    one = compare_sides(*SIDES, (1, 2, 3, 4))
    document = comparison_document({"aime": one, "data/mine.jsonl": one}, Provenance())
    assert document.title == "grpo against base"
    titles = [table.title for table in document.tables]
    assert titles == [
        "grpo against base on aime: two models",
        "grpo against base on data/mine.jsonl: two models",
        "grpo against base on the average of aime, data/mine.jsonl: two models",
    ]
    assert [row.cells[0] for row in document.tables[0].rows] == [1, 2, 4]
    assert list(document.sheets) == ["compare-aime", "compare-mine", "compare-average"]
    assert [row.cells[0] for row in document.sheets["compare-aime"].rows] == [1, 2, 3, 4]
    assert document.data["comparisons"]["aime"]["k"] == [1, 2, 3, 4]
    assert [figure.files for figure in document.figures] == [("compare.png", "compare.svg")]


@pytest.mark.parametrize(
    ("names", "stems"),
    [
        (["aime", "data/mine.jsonl"], ["aime", "mine"]),
        (["a/test.jsonl", "b/test.jsonl"], ["a-test", "b-test"]),
        (["x.jsonl:dev", "x.jsonl:train"], ["x-dev", "x-train"]),
        (
            ["arithmetic:familiar_share=0.6", "arithmetic:familiar_share=0.7"],
            ["arithmetic-familiar_share-0.6", "arithmetic-familiar_share-0.7"],
        ),
        (["org/set.v1", "org/set.v2.json"], ["set.v1", "set.v2"]),
    ],
)
def test_every_benchmark_has_a_sheet(names, stems):
    compared = dict.fromkeys(names, compare_sides(*SIDES, (1, 2)))
    sheets = [*comparison_document(compared, Provenance()).sheets]
    assert sheets[:-1] == [f"compare-{stem}" for stem in stems]


def test_one_problem_has_no_interval_and_a_small_p_is_not_shown_as_zero():
    sides = Side("grpo", ([counts([3])],)), Side("base", ([counts([1])],))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        document = comparison_document({"aime": compare_sides(*sides, (1, 2))}, Provenance())
    table = document.tables[0]
    assert any("there is no interval and no p, because one problem" in note for note in table.notes)
    generator = np.random.default_rng(2)
    p_P = generator.beta(2, 2, PROBLEMS)
    better, base = many(generator.binomial(16, p_P**0.2)), many(generator.binomial(16, p_P))
    found = {name: compare_sides(better, base, (1,)) for name in ("aime", "amc23")}
    row = comparison_document(found, Provenance()).tables[-1].rows[0]
    assert str(row.cells[6]) == "<0.0001"


PROBLEMS = 24


def many(c_P):
    ids = tuple(f"p{i}" for i in range(PROBLEMS))
    return Side("x", ([Counts(ids, np.full(PROBLEMS, 16), c_P)],))


def test_p_values_are_adjusted_over_all_tables_and_the_average_has_an_interval():
    generator = np.random.default_rng(0)
    p_P = generator.beta(1, 2, PROBLEMS)
    drawn = [generator.binomial(16, p_P + gain * (1 - p_P)) for gain in (0.3, 0.0, 0.1, 0.0)]
    found = {
        "aime": compare_sides(many(drawn[0]), many(drawn[1]), (1, 2, 3, 4)),
        "amc23": compare_sides(many(drawn[2]), many(drawn[3]), (1, 2, 3, 4)),
    }
    document = comparison_document(found, Provenance())
    assert document.tables[-1].title == "x against x on the average of aime, amc23: two models"
    data, average = document.data["comparisons"], document.data["average"]
    assert document.data["holm"] == {
        "k": [1, 2, 4],
        "over": ["aime", "amc23", "average"],
        "tests": 9,
    }
    assert sum("for the 9 tests" in note for note in document.notes) == 1
    every = [*data.values(), average]
    # Holm by hand: the smallest of nine p-values counts nine times, the largest once or as before
    raw = np.array([one["p"][place] for one in every for place in (0, 1, 3)])
    held = np.array([one["p_holm"][place] for one in every for place in (0, 1, 3)])
    assert held.min() == pytest.approx(9 * raw.min(), rel=1e-12)
    assert (held >= raw).all()
    assert all(np.isnan(one["p_holm"][2]) for one in every)  # k = 3 is in no table
    means = [np.array(one["difference"]) for one in data.values()]
    np.testing.assert_allclose(average["difference"], (means[0] + means[1]) / 2, atol=1e-14)
    assert (np.array(average["low"]) < average["difference"]).all()
    assert list(document.sheets) == ["compare-aime", "compare-amc23", "compare-average"]


def test_the_smallest_detectable_difference_stands_beside_each(tmp_path):
    generator = np.random.default_rng(1)
    a_P, b_P = (generator.binomial(16, generator.beta(1, 2, PROBLEMS)) for _ in range(2))
    one = compare_sides(many(a_P), many(b_P), (1,))
    document = comparison_document({"aime": one}, Provenance())
    gap_P = (a_P - b_P) / 16
    expected = t.ppf([0.975, 0.8], 23).sum() * gap_P.std(ddof=1) / np.sqrt(PROBLEMS)
    found = document.data["comparisons"]["aime"]["smallest_detectable"][0]
    # the test's own interval is nearly Student's here, where most problems differ
    assert found == pytest.approx(expected, rel=0.1)
    gap = document.data["comparisons"]["aime"]
    assert found > abs(gap["difference"][0] - gap["low" if gap["difference"][0] > 0 else "high"][0])
    assert any("80% of repetitions (at 5% two-sided)" in note for note in document.notes)
    assert document.data["average"] is None
    report = document.write(tmp_path)
    assert "<!-- difference -->" in (report.folder / "compare.svg").read_text()


def test_a_terminal_shows_twelve_lines_of_notes_and_the_files_all():
    sides = Side("rl", ([graded(["0111", "0011"], 0)],)), Side("sft", ([graded(["0011"] * 2, 0)],))
    compared = {name: compare_sides(*sides, KS) for name in ("aime", "amc23", "math500")}
    warned = [f"warning {place}: {'a long story ' * 14}" for place in range(3)]
    document = comparison_document(compared, Provenance(), warned)
    shown = document.essentials
    notes = [*shown.notes, *(note for table in shown.tables for note in table.notes)]
    lines = sum(len(wrap(note, 80)) for note in notes)
    # one of the twelve says that there are more
    assert 9 <= lines <= 11
    assert all(warning in notes for warning in warned)  # of three lines each, before the others
    assert len(notes) == len(set(notes))  # nothing is said twice
    text = markdown(document)
    for words in ("quote the difference", "at k = n = 4", "solved by rl and never by sft"):
        assert words in text


def test_two_training_seeds_bear_no_small_p():
    def runs(label, right):
        return Side(label, tuple([counts(c)] for c in right))

    few = (
        runs("a", [[4, 3, 4, 4] * 10, [4, 4, 4, 4] * 10]),
        runs("b", [[0, 1, 0, 1] * 10, [0, 1, 0, 0] * 10]),
    )
    more = [
        runs(side.label, [*(run[0].c_P for run in side.runs), side.runs[0][0].c_P]) for side in few
    ]
    for pair, two in ((few, True), (more, False)):
        document = comparison_document({"aime": compare_sides(*pair, (1,))}, Provenance())
        heads = [column.name for column in document.tables[0].columns]
        p = document.tables[0].rows[0].cells[heads.index("p")]
        assert p.value <= 0.05
        assert (str(p) == "<0.05") == two
        assert document.data["comparisons"]["aime"]["p"][0] == p.value  # stored as it is
        notes = " ".join(document.tables[0].notes)
        assert ("with two training seeds a p below 0.05" in notes) == two
