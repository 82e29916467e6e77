"""`sage power`: the smallest gains that designs can detect."""

import json

import numpy as np
import pytest
from shown_runs import SETTINGS, by_chance, stored_run

from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError
from sage_cli.evaluation.counted_files import passk_of_files, read_counted_files
from sage_cli.evaluation.evaluate import Evaluation
from sage_cli.evaluation.power import power, whole_numbers
from sage_cli.evaluation.seed_power import power_over_seeds
from sage_cli.progress import Silent
from sage_cli.reports.table_files import to_csv


@pytest.fixture
def evaluation(tmp_path):
    return Evaluation(load(sets=[f"run.root={tmp_path}/runs"]).config)


def counted(folder, name, a=0.4):
    generator = np.random.default_rng(1)
    right = generator.binomial(64, generator.beta(a, 1.0, 40))
    path = folder / name
    path.write_text("problem,n,c\n" + "".join(f"p{i},64,{c}\n" for i, c in enumerate(right)))
    return str(path)


def test_designs_against_smallest_gains(evaluation, tmp_path):
    asked = {"problems": "120,30", "samples": "16,64", "seeds": "1,3", "k": "1,16"}
    report = power(evaluation, [counted(tmp_path, "base.csv")], Silent(), **asked)
    assert {path.name for path in report.folder.iterdir()} == {
        "power.json",
        "power.md",
        "power.csv",
        "power.tex",
    }
    written = json.loads((report.folder / "power.json").read_text(), parse_constant=pytest.fail)
    (base,) = written["bases"]
    designs = [(one["problems"], one["samples"], one["seeds"]) for one in base["designs"]]
    assert designs == [(p, n, s) for p in (30, 120) for n in (16, 64) for s in (1, 3)]
    assert all(len(one["smallest"]) == 2 for one in base["designs"])
    assert list(base["pass@k"]) == ["1", "16"]
    table = report.document.tables[0]
    assert table.title == "minimum detectable gain on counts over base"
    assert [str(cell) for cell in table.rows[0].cells[:3]] == ["30", "16", "1"]


def test_designs_of_several_bases_and_as_many_problems_as_counted(evaluation, tmp_path):
    files = [counted(tmp_path, "base.csv"), counted(tmp_path, "other.csv", a=2.0)]
    report = power(evaluation, files, Silent(), problems="40", samples="64")
    assert report.document.data["k"] == [1, 16]
    assert list(report.document.sheets) == ["power-base-counts", "power-other-counts"]
    first, second = (one["designs"][0]["smallest"] for one in report.document.data["bases"])
    assert (first != second).any()
    document = power(evaluation, [counted(tmp_path, "base.csv")], Silent()).document
    designs = document.data["bases"][0]["designs"]
    assert sorted({one["problems"] for one in designs}) == [40, 80, 160]
    assert sorted({one["samples"] for one in designs}) == [64, 256, 1024]
    # 64 samples a problem are counted: pass@256 would rest on the fitted distribution
    assert document.data["k"] == [1, 16]


def test_k_above_the_counts_and_what_takes_long_is_said(evaluation, tmp_path, told):
    base = counted(tmp_path, "base.csv")
    asked = {"problems": "40", "samples": "256"}
    beyond = power(evaluation, [base], Silent(), **asked, k="1,256").document
    (note,) = [note for note in beyond.tables[0].notes if "rest on the Beta" in note]
    assert note.startswith("pass@256: only 64 samples per problem are counted")
    assert any(note.startswith("–: ") for note in beyond.notes) == any(
        str(cell) == "–" for cell in beyond.tables[0].rows[0].cells
    )
    within = power(evaluation, [base], Silent(), **asked, k="1,16").document
    assert not any("–" in note for note in within.notes)
    heads = [column.heading for column in within.tables[0].columns]
    assert heads == ["problems", "samples", "seeds", "pass@1", "pass@16"]
    assert "min. detectable gain pass@16" in to_csv(within.tables[0])
    assert not any("rest on the Beta" in note for note in within.tables[0].notes)
    power(evaluation, [counted(tmp_path, "base.csv")], told, problems="30", samples="16")
    assert told.done == [
        "counting stored samples",
        "computing the smallest gain over base on counts",
        "drawing and writing the report",
    ]


@pytest.mark.parametrize("text", ["30,,60", "0", "3.5", "many", "100001", ""])
def test_numbers_that_are_none_are_named(text):
    with pytest.raises(ConfigurationError, match=r"--problems: '.*' is not a whole number"):
        whole_numbers("--problems", text)


@pytest.mark.parametrize(("samples", "warnings"), [("16,64", 1), ("64", 0)])
def test_a_warning_where_n_is_k(evaluation, tmp_path, samples, warnings):
    base = counted(tmp_path, "base.csv")
    notes = power(evaluation, [base], Silent(), samples=samples, k="1,16").document.notes
    assert sum("n = k" in note for note in notes) == warnings
    assert not warnings or [n for n in notes if "n = k = 16" in n and "--samples 64" in n]


def test_k_chooses_what_the_table_shows_and_the_curve_has_every_k(tmp_path):
    # 32 samples, 4 right: pass@2 = 1 - C(28,2) / C(32,2) = 1 - 378/496, far above the straight
    # line from k = 1 to 32.
    rows = [{"problem": id_, "n": 32, "c": 4} for id_ in ("a", "b", "c")]
    (tmp_path / "mine.json").write_text(json.dumps(rows))
    evaluation = load().config.evaluation
    files = read_counted_files([str(tmp_path / "mine.json")])
    report = passk_of_files(files, {}, "1,32", evaluation, tmp_path / "runs")
    written = json.loads((report.folder / "passk.json").read_text())
    assert written["k"] == list(range(1, 33))
    assert written["curves"][0]["pass@k"][1] == pytest.approx(1 - 378 / 496, abs=1e-12)
    shown = (report.folder / "passk.md").read_text()
    assert "| 1 |" in shown
    assert "| 2 |" not in shown
    assert "| 32 |" in shown


def several(folder, deviations=(-0.1, 0.0, 0.1)):
    """Files of counts of one method's runs, whose seeds move all problems by so many logits."""
    generator, names = np.random.default_rng(3), []
    logit_P = generator.normal(-1, 1.5, 40)
    for place, shift in enumerate(deviations):
        right = generator.binomial(64, 1 / (1 + np.exp(-logit_P - shift)))
        file = folder / f"run-{place}.csv"
        file.write_text("problem,n,c\n" + "".join(f"p{i},64,{c}\n" for i, c in enumerate(right)))
        names.append(str(file))
    return names


def test_numbers_of_training_seeds_against_smallest_differences(evaluation, tmp_path):
    asked = {"training_seeds": "2,4,8", "problems": "40,400", "k": "1,8"}
    report = power_over_seeds(evaluation, several(tmp_path), Silent(), **asked)
    designs = json.loads((report.folder / "power.json").read_text())["designs"]
    smallest = {(one["training_seeds"], one["problems"]): one["smallest"] for one in designs}
    assert list(smallest) == [(s, p) for s in (2, 4, 8) for p in (40, 400)]
    assert smallest[2, 40][0] > 3 * smallest[4, 40][0] > 3 * smallest[8, 40][0]
    assert smallest[4, 400][0] < smallest[4, 40][0]
    assert {one["seeds"] for one in designs} == {"their own"}
    notes = " ".join(report.document.notes)
    assert "all runs are of one method: we assume that the other varies as much" in notes
    assert "only roughly known, from 3 runs per side" in notes


def test_one_run_needs_a_deviation(evaluation, tmp_path):
    (one,) = several(tmp_path, (0.0,))
    with pytest.raises(ConfigurationError, match="--from names only one run of a method") as caught:
        power_over_seeds(evaluation, [one], Silent(), training_seeds="4")
    assert "--seed-deviation 0.02" in caught.value.next_step
    found = power_over_seeds(evaluation, [one], Silent(), training_seeds="4", deviation=0.02)
    own, paired = found.document.data["designs"]
    assert "correlation 0.8 (assumed)" in paired["seeds"]
    # seeds alone: 2 x .02^2 / 4 = .0002 of both sides, a root of .0141; t[.975] + t[.8] with 3
    # degrees of freedom is 3.18 + .98
    assert own["smallest"][0] > 4.16 * 0.0141
    assert paired["smallest"][0] < 0.6 * own["smallest"][0]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--training-seeds", "4"), "needs runs that say how much training seeds vary"),
        (("--from", "a,b"), "--from a,b is about training seeds, and --training-seeds is missing"),
        (("--seed-deviation", "0.1"), "--training-seeds is missing"),
        (("x.csv", "--training-seeds", "4", "--from", "a,b"), "'x.csv' isn't read"),
        (
            ("--training-seeds", "4", "--from", "a,b", "--samples", "64"),
            "'--samples 64' isn't read",
        ),
        (("--training-seeds", "4", "--from", "a,b", "--seeds", "2"), "'--seeds 2' isn't read"),
    ],
)
def test_options_about_training_seeds_go_together(sage, words, said):
    sage("power", *words).refused(said)


@pytest.mark.parametrize(
    "words",
    [("power", "--training-seeds", "4", "--from", "sft-x@seeds"), ("compare", "sft-x@seeds", "b")],
)
def test_the_training_seeds_of_a_name_are_those_of_rl(sage, words):
    stored_run(sage("config", "algos").folder / "runs", "x", "1", kind="sft")
    sage(*words).refused("sft-x is not a run of `sage rl`")


def test_runs_of_two_methods_with_the_same_seeds_are_paired(tmp_path):
    root, names = tmp_path / "runs", []
    for method, kl in enumerate(("reverse", "none")):
        for seed in range(3):
            right = 5 - 2 * method + (seed > 0)
            settings = {"rl": {"algo": "dapo"}, "anchor": {"kl": kl}}
            run = stored_run(root, kl, f"{method}{seed}", by_chance(right), settings=settings)
            run.note(seed=seed, parent_weights="weights", data=["rows"])
            names.append(run.id)
    config = load(("tiny",), {**SETTINGS}, [f"run.root={root}"]).config
    asked = {"training_seeds": "3", "k": "1"}
    found = power_over_seeds(Evaluation(config), names, Silent(), **asked).document
    assert [row["seeds"] for row in found.data["designs"]] == ["paired", "their own"]
    paired, own = (row["smallest"][0] for row in found.data["designs"])
    assert paired < own  # both sides have the same seeds' effects
    assert any("correlations from 1.00 to 1.00" in note for note in found.notes)
    other = stored_run(root, "x", "9", by_chance(2), settings={"rl": {"algo": "grpo"}}).id
    with pytest.raises(ConfigurationError, match="runs of 3 methods"):
        power_over_seeds(Evaluation(config), [*names, other], Silent(), **asked)
