"""What a suite's report says: measured tables, claims, curves, and the picture of differences."""

import re

import numpy as np
import pyarrow.parquet as parquet
import pytest
from suite_results import result

from sage_cli.reports.estimate import Estimate
from sage_cli.trials.suites.chapters import curves, measured, runs
from sage_cli.trials.suites.claims import decide
from sage_cli.trials.suites.declaration import Suite, Verdict
from sage_cli.trials.suites.differences import contrasts, differences, forest_panels
from sage_cli.trials.suites.results import write_counts

METHODS = {"base": "base", "grpo": "grpo", "grpo-branch": "grpo/branch"}


def suite(**more):
    return Suite.model_validate(
        {"name": "mine", "title": "Mine", "methods": METHODS, "k": "1,4", **more}
    )


NEVER = {"base": {"arithmetic": [[0, 0, 1, 3] * 5]}}
GRPO = {"grpo": {"arithmetic": [[0, 1, 2, 4] * 5]}}
BRANCH = {"grpo-branch": {"arithmetic": [[4, 4, 4, 4] * 5]}}


def test_measured_tables_stand_beside_published_ones():
    found = result(suite(published="table1"), {**NEVER, **GRPO})
    here, printed = measured(found).tables
    rows = {str(row.cells[0]): row for row in here.rows}
    # c/n: (0 + 0 + 1/4 + 3/4) / 4 = .25 and (0 + 1/4 + 2/4 + 4/4) / 4 = .4375
    assert str(rows["initial policy"].cells[1]) == "0.250"
    assert rows["grpo"].cells[1] == Estimate(
        pytest.approx(0.4375), pytest.approx(np.nan, nan_ok=True)
    )
    lost = rows["grpo-branch (out of memory: the GPU is full)"]
    assert {str(cell) for cell in lost.cells[1:]} == {"–"}
    assert "compare the order of rows" in printed.notes[1]
    assert "Qwen2.5-Math-7B-Base" in printed.title
    assert "arXiv:2605.18864" in printed.notes[0]
    assert {str(row.cells[0]) for row in printed.rows} == {"initial policy", *METHODS} - {"base"}
    twice = {"grpo": {"arithmetic": [[1] * 20, [4] * 20]}}
    *_, first, second = measured(result(suite(), {**NEVER, **twice})).notes
    assert first == "grpo, seed 1 on arithmetic, evaluation seed 0: 20 correct, 60 wrong"
    assert second == "grpo, seed 2 on arithmetic, evaluation seed 0: 80 correct, 0 wrong"
    table5 = suite(published="table5", methods={"grpo": "grpo"})
    _, printed = measured(result(table5, GRPO)).tables
    assert [str(cell) for cell in printed.rows[0].cells] == ["grpo", "0.056", "0.030", "0.053"]


def test_claims_are_decided_with_holms_p_over_the_claims():
    claims = (
        "grpo-branch > base at pass@1",
        "grpo-branch < grpo at pass@1",
        "grpo > base at pass@256",
        "grpo > grpo-branch at pass@1 on elsewhere",
    )
    found = result(suite(claims=claims), {**NEVER, **GRPO, **BRANCH})
    better, worse, capped, unknown = decide(found, contrasts(found))
    assert better.verdict is Verdict.AS_CLAIMED  # one training: nothing is said of the method
    assert (better.about, better.subject) == ("models", "two models")
    assert better.difference.value == pytest.approx(1 - 0.25)
    assert worse.verdict is Verdict.OTHERWISE  # .4375 less 1
    assert worse.difference.value == pytest.approx(0.4375 - 1)
    assert (capped.k, capped.claim.k) == (4, 256)
    # pass@4 of 4 samples is whether one is right: 2 of 4 problems before, 3 of 4 after
    assert capped.difference.value == pytest.approx(0.25)
    assert unknown.verdict is Verdict.UNKNOWN
    assert unknown.about is None
    every = contrasts(found)
    raw = [
        float(every[pair]["arithmetic"].difference.p_K[place])
        for pair, place in (
            (("grpo-branch", "base"), 0),
            (("grpo-branch", "grpo"), 0),
            (("grpo", "base"), 1),
        )
    ]
    # three tests: the smallest p times 3, the next times 2, none smaller than one before
    order = np.argsort(raw, kind="stable")
    held = np.maximum.accumulate(np.array(raw)[order] * [3, 2, 1])
    expected = dict(zip(order.tolist(), np.minimum(held, 1), strict=True))
    for place, one in enumerate((better, worse, capped)):
        assert one.p_holm == pytest.approx(expected[place])


def test_claims_stand_beside_the_printed_difference_and_an_average_decides():
    claims = ("grpo-branch > grpo at pass@256", "grpo-branch > grpo at pass@1 on aime")
    found = result(suite(published="table1", claims=claims), {**NEVER, **GRPO, **BRANCH})
    table = differences(found).tables[0]
    # (.427 + .965 + .794 - .407 - .96 - .775) / 3 = .0147; on AIME .063 - .053
    assert [str(row.cells[-1]) for row in table.rows] == ["+0.015", "+0.010"]
    assert table.rows[0].cells[0] == "grpo-branch > grpo at pass@256 (here pass@4)"
    both = {
        label: {"a": by["arithmetic"], "b": [[4] * 20]}
        for label, by in {**NEVER, **GRPO, **BRANCH}.items()
    }
    found = result(suite(claims=("grpo-branch > base at pass@1",)), both)
    (one,) = decide(found, contrasts(found))
    assert one.difference.value == pytest.approx((0.75 + 0) / 2)


SEVERAL = {
    "base": NEVER["base"],
    "grpo": {"arithmetic": [[0, 1, 2, 4] * 5, [0, 2, 2, 4] * 5, [0, 2, 1, 4] * 5]},
    "grpo-branch": {"arithmetic": [[3, 4, 4, 4] * 5, [3, 4, 4, 4] * 5, [4, 4, 4, 4] * 5]},
}


def test_methods_of_several_seeds_are_compared_as_methods_also_with_a_base():
    claims = ("grpo-branch > grpo at pass@1", "grpo > base at pass@1")
    found = contrasts(result(suite(claims=claims), SEVERAL))
    pair = found["grpo-branch", "grpo"]["arithmetic"].difference
    assert pair.runs == (3, 3)
    assert pair.pairing is not None
    assert pair.pairing.seeds == (1, 2, 3)
    single = found["grpo", "base"]["arithmetic"]
    # means over the seeds: (.4375 + .5 + .4375) / 3
    assert single.means[0][0] == pytest.approx(0.4583333, abs=1e-7)
    assert single.difference.mean_K[0] == pytest.approx(0.4583333 - 0.25, abs=1e-7)
    assert single.difference.runs == (3, 1)
    assert (single.about, single.subject) == ("methods", "method and this base")
    document = differences(result(suite(claims=claims), SEVERAL))
    table = document.tables[0]
    assert table.rows[1].cells[0] == "grpo > initial policy at pass@1"
    assert [one["about"] for one in document.data["claims"]] == ["methods", "methods"]
    assert document.data["claims"][0]["verdict"] == "holds"
    assert [row.cells[2] for row in table.rows] == ["methods", "method and this base"]
    assert {one["about"] for one in document.data["differences"]} == {"methods"}
    assert any(
        note.startswith("the variance between training seeds is pooled over 2 arms")
        for note in document.notes
    )
    # beside each claim that pools stands its interval without that
    own = [column.name for column in table.columns].index("by its own seeds")
    low, high = table.rows[1].cells[own].interval
    assert document.data["claims"][1]["unpooled"] == [low, high]
    assert low < high


def test_methods_with_seeds_of_their_own_are_neither_paired_nor_pooled():
    found = contrasts(result(suite(against=["grpo"]), SEVERAL, paired=False))
    contrast = found["grpo-branch", "grpo"]["arithmetic"]
    assert contrast.difference.pairing is None
    assert contrast.unpooled is None


def test_a_suite_names_the_run_that_has_no_partner():
    lacking = {**SEVERAL, "grpo": {"arithmetic": SEVERAL["grpo"]["arithmetic"][:2]}}
    found = result(suite(against=["grpo"]), lacking)
    assert contrasts(found)["grpo-branch", "grpo"]["arithmetic"].difference.runs == (2, 2)
    notes = [note for note in differences(found).notes if "left out" in note]
    assert len(notes) == 1
    assert notes[0].startswith("grpo-branch − grpo on arithmetic: ")
    assert found.method("grpo-branch").seeds[2].run in notes[0]
    # two seeds: a p below .05 is not told apart from .05
    document = differences(found)
    place = [column.name for column in document.tables[0].columns].index("p")
    assert {str(row.cells[place]) for row in document.tables[0].rows} <= {"<0.05", "–"} | {
        str(row.cells[place]) for row in document.tables[0].rows if row.cells[place].value > 0.05
    }


def test_a_suite_names_the_run_that_has_no_partner_where_seeds_are_pooled():
    lacking = {
        **SEVERAL,
        "grpo": {"arithmetic": SEVERAL["grpo"]["arithmetic"][:2]},
        "wild": {"arithmetic": [[0] * 20, [2] * 20, [4] * 20]},
    }
    found = result(suite(against=["grpo"], methods={**METHODS, "wild": "dapo"}), lacking)
    contrast = contrasts(found)["grpo-branch", "grpo"]["arithmetic"]
    assert contrast.unpooled is not None
    assert contrast.difference.pairing.left_out == contrast.unpooled.pairing.left_out
    assert contrast.difference.pairing.left_out == (found.method("grpo-branch").seeds[2].run,)


def test_a_method_that_lacks_seeds_is_a_model_beside_one_that_has_them():
    runs = [[0, 1, 2, 4] * 5, [0, 2, 2, 4] * 5, [0, 1, 2, 4] * 5]
    lacking = {**NEVER, **BRANCH, "grpo": {"arithmetic": runs}}
    claims = ("grpo-branch > grpo at pass@1", "grpo > base at pass@1")
    found = result(suite(claims=claims), lacking)
    short, against_base = decide(found, contrasts(found))
    assert (short.about, short.subject) == ("models", "these models")
    assert short.verdict is Verdict.AS_CLAIMED
    assert against_base.about == "methods"
    assert contrasts(found)["grpo-branch", "grpo"]["arithmetic"].difference.runs == (1, 3)
    notes = differences(found).notes
    assert any(
        note.startswith("two models, these models: arms with one training run") for note in notes
    )


def test_gaps_of_every_pair_of_arms_tell_how_much_seeds_vary():
    claims = ("grpo-branch > grpo at pass@1",)
    pair = ("grpo-branch", "grpo")
    alone = contrasts(result(suite(claims=claims), SEVERAL))[pair]["arithmetic"]
    # a third arm whose runs are far apart, 0, 2 and 4 right of 4, makes gaps vary more
    wild = {**SEVERAL, "wild": {"arithmetic": [[0] * 20, [2] * 20, [4] * 20]}}
    more = suite(claims=claims, methods={**METHODS, "wild": "dapo"})
    beside = contrasts(result(more, wild))[pair]["arithmetic"]
    assert beside.smallest_K[0] > 2 * alone.smallest_K[0]
    assert beside.difference.low_K[0] < alone.difference.low_K[0]
    # two arms alone have their own gaps, and no others to pool
    assert alone.unpooled is None
    assert beside.unpooled.low_K[0] == pytest.approx(alone.difference.low_K[0], abs=1e-12)


def test_curves_runs_and_compared_pairs_name_the_methods():
    found = result(suite(), {**NEVER, **GRPO})
    assert found.base is not None
    assert [one["policy"] for one in curves(found).data["curves"]] == ["initial policy", "grpo"]
    states = [row.cells[3] for row in runs(found).tables[0].rows]
    assert states == ["comes with sage", "not trained yet", "not trained yet"]
    found = result(suite(against=["grpo", "grpo-branch"]), {**NEVER, **GRPO, **BRANCH})
    document = differences(found)
    assert document.title == "Differences"
    assert list(document.sheets) == ["differences"]
    (table,) = document.tables
    # the same two methods the other way round are no further test
    pairs = [(row.cells[0], row.cells[3]) for row in table.rows]
    less = "grpo-branch − its baseline grpo"
    assert pairs == [(less, 1), (less, 4)]
    assert {row.cells[1] for row in table.rows} == {"two models"}
    assert str(table.rows[0].cells[6]).startswith("+0.56")  # 1 less .4375 at k = 1


@pytest.mark.parametrize(
    ("claim", "sentence"),
    [
        ("grpo-branch > grpo at pass@1", "grpo-branch is above grpo at pass@1: +0.562"),
        ("grpo-branch < grpo at pass@1", "grpo is below grpo-branch at pass@1: −0.562"),
        ("same > grpo at pass@4", "same is indistinguishable from grpo at pass@4: +0.000 ["),
        ("grpo > base at pass@1 on arithmetic", "above the initial policy at pass@1 on arithmetic"),
        ("grpo > base at pass@1 on kk", "grpo and the initial policy at pass@1 on kk: not measure"),
    ],
)
def test_a_claim_is_answered_in_a_sentence(claim, sentence):
    methods = {**METHODS, "same": {"of": "grpo", "settings": {"rl.learning_rate": 1e-3}}}
    same = {"same": GRPO["grpo"]}
    asked = suite(claims=claim, against=["grpo", "base"], methods=methods)
    found = result(asked, {**NEVER, **GRPO, **BRANCH, **same})
    (answered,) = differences(found).data["claims"]
    assert sentence in answered["sentence"]


@pytest.mark.parametrize(("published", "paper"), [(None, False), ("table1", True)])
def test_a_papers_column_is_where_a_paper_has_the_number(published, paper):
    claims = "grpo-branch > grpo at pass@256"
    document = differences(result(suite(claims=claims, published=published), {**GRPO, **BRANCH}))
    assert document.title == "Claims and their verdicts"
    assert ("paper" in [column.name for column in document.tables[0].columns]) == paper


def test_claims_that_name_a_pair_both_ways_are_one_family():
    claims = ("grpo-branch > grpo at pass@1", "grpo-branch < grpo at pass@1")
    found = result(suite(claims=claims, against="grpo"), {**NEVER, **GRPO, **BRANCH})
    assert found.suite.compared == (("grpo-branch", "grpo"),)
    document = differences(found)
    better, worse = document.data["claims"]
    # 1 less .4375, and the same interval from the other end
    assert (better["difference"], worse["difference"]) == (0.5625, -0.5625)
    assert worse["difference low"] == -better["difference high"]
    assert worse["difference high"] == -better["difference low"]
    assert (better["verdict"], worse["verdict"]) == (
        "these models: as claimed",
        "these models: the reverse",
    )
    assert better["about"] == worse["about"] == "models"
    assert better["p_holm"] == worse["p_holm"]
    assert better["detectable"] == worse["detectable"]
    assert [(one["a"], one["b"]) for one in document.data["differences"]] == [
        ("grpo-branch", "grpo")
    ]


def test_a_training_stands_with_its_tokens_and_minutes(tmp_path):
    found = result(suite(), GRPO, sets=[f"run.root={tmp_path}"])
    run = found.methods[1].trial.replicates[0].policy.run
    assert run is not None
    run.folder.mkdir(parents=True)
    run.note(status="finished", seconds=90)
    for step, tokens in ((1, 100), (2, 0)):  # a generation for two steps
        run.metrics.append({"step": step, "sampled/tokens": tokens})
    rows = [[str(cell) for cell in row.cells[4:]] for row in runs(found).tables[0].rows]
    assert rows[1][1:] == ["100", "1.5"]
    assert rows[2][1:] == ["–", "–"]


def test_counts_are_rows_by_method_seed_and_problem(tmp_path):
    twice = {"grpo": {"arithmetic": [[1, 0], [4, 2]]}}
    found = result(suite(), {"base": {"arithmetic": [[0, 3]]}, **twice})
    write_counts([found], tmp_path / "counts.parquet")
    rows = parquet.read_table(tmp_path / "counts.parquet").to_pylist()
    assert [(one["method"], one["seed"], one["problem"], one["c"]) for one in rows] == [
        ("base", 1, "arithmetic-0", 0),
        ("base", 1, "arithmetic-1", 3),
        ("grpo", 1, "arithmetic-0", 1),
        ("grpo", 1, "arithmetic-1", 0),
        ("grpo", 2, "arithmetic-0", 4),
        ("grpo", 2, "arithmetic-1", 2),
    ]
    policies = [one.policy.label for method in found.there for one in method.trial.replicates]
    assert list(dict.fromkeys(one["policy"] for one in rows)) == policies
    same = {(one["suite"], one["benchmark"], one["evaluation_seed"], one["n"]) for one in rows}
    assert same == {("mine", "arithmetic", 0, 4)}


PLAIN = {"methods": {**METHODS, "hot": {"of": "grpo", "settings": {"rl.learning_rate": 1e-3}}}}
HOT = {"hot": {"arithmetic": [[1, 2, 3, 3] * 5]}}  # pass@1 9/16; at k = 4 all are solved


@pytest.mark.parametrize(
    ("asked", "own", "sentence"),
    [
        ("grpo-branch > grpo at pass@1", 0.5625, "pass@1: +0.562"),
        ("grpo-branch < grpo at pass@1", 0.5625, "pass@1: −0.562"),
        ("grpo-branch > base at pass@1", 0.5625, "; difference from its baseline grpo: +0.562 ["),
        ("base > grpo-branch at pass@1", 0.5625, "; difference from its baseline grpo: +0.562 ["),
        ("hot > grpo at pass@1", None, "pass@1: +"),  # none of the two has a control
    ],
)
def test_a_claim_has_the_difference_from_the_methods_own_control_beside_it(asked, own, sentence):
    measured_all = {**NEVER, **GRPO, **BRANCH, **HOT}
    claims = (asked, "grpo-branch > hot at pass@1")
    document = differences(result(suite(claims=claims, **PLAIN), measured_all))
    claim, _ = document.data["claims"]
    assert claim.get("less control") == own
    assert claim["control"] == ("grpo" if own else None)
    assert sentence in claim["sentence"]
    assert ("its baseline" in claim["sentence"]) == ("its baseline" in sentence)
    head = [column.name for column in document.tables[0].columns]
    assert head[3:5] == ["− its baseline", "difference"]
    assert document.tables[0].rows[0].cells[3] == Estimate(
        pytest.approx(own if own else np.nan, nan_ok=True),
        interval=claim_interval(claim),
        signed=bool(own),
    )


def claim_interval(claim):
    ends = claim.get("less control low"), claim.get("less control high")
    return None if ends == (None, None) else ends


def test_the_own_control_comes_first_and_the_best_in_hindsight_is_a_line_of_sensitivity():
    found = result(suite(against=["hot", "base"], **PLAIN), {**NEVER, **GRPO, **BRANCH, **HOT})
    document = differences(found)
    table, sensitivity = document.tables
    assert table.rows[0].cells[0] == "grpo-branch − its baseline grpo"
    assert sum("its baseline" in str(row.cells[0]) for row in table.rows) == 2  # k = 1 and 4
    # pass@1: hot 9/16 above grpo's 7/16; pass@4: hot 1, grpo 3/4
    assert [row.cells[:4] for row in sensitivity.rows] == [
        ("grpo-branch", 1, "hot", 2),
        ("grpo-branch", 4, "hot", 2),
    ]
    values = [row.cells[4].value for row in sensitivity.rows]
    assert values == pytest.approx([7 / 16, 0])
    assert "post-hoc best" in sensitivity.title
    assert [row["best in hindsight"] for row in document.data["hindsight"]] == ["hot", "hot"]
    assert [(one["b"], one["own_control"]) for one in document.data["differences"]][:3] == [
        ("grpo", True),
        ("hot", False),
        ("hot", False),
    ]
    # with one plain method alone nothing was chosen
    assert len(differences(result(suite(against="grpo"), {**GRPO, **BRANCH})).tables) == 1


@pytest.mark.parametrize(
    ("branch", "noted"),
    [("grpo/branch", False), ({"of": "grpo/branch", "settings": {"anchor.beta": 0.4}}, True)],
)
def test_a_guide_without_its_control_in_the_suite_is_named(branch, noted):
    alone = suite(methods={**METHODS, "grpo-branch": branch}, against="base")
    notes = differences(result(alone, {**NEVER, **GRPO, **BRANCH})).notes
    assert noted == any(note.startswith("grpo-branch: the suite has no unguided") for note in notes)


SUITE, COUNTS = suite(against=["base", "grpo"]), {**NEVER, **GRPO, **BRANCH}


@pytest.mark.parametrize(("resamples", "warned"), [(100, True), (10_000, False)])
def test_resamples_that_are_too_few_for_so_many_tests_are_named(resamples, warned):
    notes = differences(result(SUITE, COUNTS, sets=[f"evaluation.bootstrap={resamples}"])).notes
    (tests,) = [
        re.search(r"adjusted for (\d+) tests", note) for note in notes if "adjusted" in note
    ]
    # the smallest p of 100 resamples is 1/101 = .0099, and 6 times as much .059
    assert tests[1] == "6"
    found = [note for note in notes if note.startswith("no difference can be significant")]
    assert len(found) == warned
    assert not warned or "is 0.0099, and 6 times as much" in found[0]
    assert not warned or "evaluation.bootstrap=1000 " in found[0]  # 2 x 6 / .05 = 240


def test_a_row_for_each_method_and_a_point_for_each_that_it_is_compared_with():
    found = {pair: by["arithmetic"] for pair, by in contrasts(result(SUITE, COUNTS)).items()}
    panels = forest_panels(found, (1, 4))
    assert list(panels) == ["pass@1", "pass@4"]
    at_1 = panels["pass@1"]
    assert {row: list(points) for row, points in at_1.items()} == {
        "grpo": ["− initial policy"],
        "grpo-branch": ["− grpo", "− initial policy"],  # its own control first
    }
    # c/n: branch 1; grpo (0 + 1 + 2 + 4) / 16 = .4375; base (0 + 0 + 1 + 3) / 16 = .25
    assert at_1["grpo-branch"]["− initial policy"].value == pytest.approx(0.75)
    assert at_1["grpo-branch"]["− grpo"].value == pytest.approx(0.5625)
    gap = found["grpo-branch", "grpo"].difference
    assert at_1["grpo-branch"]["− grpo"].interval == (gap.low_K[0], gap.high_K[0])
    # at k = 4 of 4 samples whoever has a right one has solved it: 1 less (0 + 1 + 1 + 1) / 4
    assert panels["pass@4"]["grpo-branch"]["− grpo"].value == pytest.approx(0.25)


def test_the_section_draws_it_with_every_method_named(tmp_path):
    (figure,) = differences(result(SUITE, COUNTS)).figures
    figure.draw(tmp_path / figure.stem)
    drawn = (tmp_path / "differences.svg").read_text()
    named = set(re.findall(r"<!-- (.*?) -->", drawn))
    assert {"pass@1", "pass@4", "grpo", "grpo-branch", "− initial policy", "− grpo"} <= named
    assert differences(result(SUITE, {"base": COUNTS["base"]})).figures == ()
