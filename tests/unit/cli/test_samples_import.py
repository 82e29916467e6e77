"""`sage samples import`, and what takes an imported name like a run's."""

import json
from pathlib import Path

import pytest

from sage_cli.store.run import Run
from sage_cli.view.api import Api

WRITTEN = Path(__file__).resolve().parents[2] / "data/imported"
LOG = WRITTEN / "inspect.eval"


def answer(sage, *words):
    typed = sage(*map(str, words), "--json")
    assert typed.code == 0, typed.words
    return json.loads(typed.stdout)  # type: ignore[no-any-return]


def test_samples_are_measured_like_a_runs(sage):
    said = answer(sage, "samples", "import", LOG, "--as", "theirs")
    assert (said["right"], said["samples"], said["unknown"]) == (3, 12, ["top_p"])
    report = answer(sage, "passk", "theirs")
    # three right of twelve: pass@1 is 3/12; with one right of four a problem, pass@k is k/4
    assert report["curves"][0]["pass@k"] == [0.25, 0.5, 0.75, 1.0]
    assert report["provenance"]["sampling"]["temperature"] == 0.8
    assert report["provenance"]["benchmarks"][0]["grader"]["mode"] == "imported"
    graded = answer(sage, "grade", LOG)
    assert graded["statuses"]["imported"]["right"] == 3
    assert graded["statuses"]["math-verify"]["right"] == 3  # the golds are plain numbers
    assert answer(sage, "samples", "show", "theirs", "--grade", "right")["samples"]
    assert answer(sage, "analyze", "majority", "theirs")["name"] == "majority"
    again = sage("samples", "import", LOG, "--as", "theirs")
    assert "is stored already" in again.words


def test_imported_samples_without_verdicts_are_said_to_lack_grades(sage):
    row = {"question": "3*4=?", "gold": "12", "completion": "12"}
    Path("plain.jsonl").write_text(json.dumps(row) + "\n")
    sage("samples", "import", "plain.jsonl", "--as", "plain")
    for words in ((), ("--grade", "right")):
        typed = sage("samples", "show", "plain", *words)
        assert typed.code == 2
        assert "is stored and graded" in typed.words
        assert "`sage passk plain` samples and grades what is missing" in typed.words
    answer(sage, "passk", "plain", "--n", "1", "--k", "1")
    assert answer(sage, "samples", "show", "plain", "--grade", "right")["samples"]
    typed = sage("samples", "show", "plain", "--grade", "wrong")
    assert "no wrong completion of plain" in typed.words


def test_two_files_of_the_same_problems_are_compared(sage):
    sage("samples", "import", LOG, "--as", "theirs")
    rows = [
        {"question": "3*4=?", "gold": "12", "completion": "12", "correct": True},
        {"question": "5*6=?", "gold": "30", "completion": "31", "correct": False},
        {"question": "2+5=?", "gold": "7", "completion": "8", "correct": False},
    ]
    Path("ours.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    sage("samples", "import", "ours.jsonl", "--as", "ours")
    # the first samples alone: 12 and nothing else is right of theirs, too
    assert answer(sage, "compare", "theirs", "ours", "--n", "1", "--k", "1")["name"] == "compare"
    typed = sage("compare", "theirs", "ours")
    assert (typed.code, "9 of the samples asked for are not in it" in typed.words) == (
        2,
        True,
    )


def test_a_folder_of_runs_may_be_moved(sage):
    sage("samples", "import", LOG, "--as", "theirs")
    Path("runs").rename("elsewhere")
    report = answer(sage, "passk", "theirs", "--runs", "elsewhere")
    assert report["curves"][0]["benchmark"] == "elsewhere/theirs/problems.jsonl"


def test_the_stored_configuration_names_no_other_file(sage):
    sage("samples", "import", LOG, "--as", "theirs")
    config = Path("runs/theirs/config.json")
    stored = json.loads(config.read_text())
    stored["evaluation"]["benchmark"] = "/etc/passwd.jsonl"
    stored["sampling"]["servers"] = ["http://elsewhere"]
    config.write_text(json.dumps(stored))
    Run(config.parent).note(files=None)  # whoever edits a run may edit this, too
    assert answer(sage, "passk", "theirs")["curves"][0]["benchmark"] == "runs/theirs/problems.jsonl"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--as", "../out"), "a name is of letters"),
        (("--as", "samples"), "a name is of letters"),
        (("--as", "x", "--score", "other"), "no score 'other'"),
    ],
)
def test_nothing_is_written_where_something_is_refused(sage, words, said):
    typed = sage("samples", "import", LOG, *words)
    assert (typed.code, typed.written) == (2, [])
    assert said in typed.words


def test_a_dry_run_writes_nothing(sage):
    said = answer(sage, "samples", "import", LOG, "--as", "theirs", "--dry-run")
    assert (said["right"], said["stored"], Path("runs").exists()) == (3, False, False)


@pytest.mark.parametrize("field", ["problem", "question", "gold", "completion"])
def test_half_a_character_is_replaced_and_said_so(sage, field):
    row = {"problem": "p", "question": "q", "gold": "4", "completion": "4", "correct": True}
    Path("mine.jsonl").write_text(json.dumps({**row, field: "cut \ud83d"}) + "\n")
    said = answer(sage, "samples", "import", "mine.jsonl", "--as", "mine")
    assert "1 sample: lone surrogates were replaced by U+FFFD" in said["notes"]
    assert (said["right"], answer(sage, "passk", "mine")["curves"][0]["pass@k"]) == (1, [1.0])
    (sample,) = answer(sage, "samples", "show", "mine")["samples"]
    assert ("cut \ufffd" in sample["completion"]["text"]) == (field == "completion")


def test_a_file_name_that_is_no_text(sage):
    row = {"question": "q", "gold": "4", "completion": "4", "correct": True}
    file = Path("m\udcff.jsonl")
    file.write_text(json.dumps(row) + "\n")
    assert answer(sage, "samples", "import", file, "--as", "mine")["right"] == 1


def test_a_name_that_is_taken(sage):
    sage("samples", "import", LOG, "--as", "theirs")
    other = WRITTEN / "lighteval.parquet"
    typed = sage("samples", "import", other, "--as", "theirs")
    assert (typed.code, "holds something else" in typed.words) == (2, True)


@pytest.mark.parametrize(
    "words",
    [
        ("analyze", "entropy", "theirs"),
        ("rl", "--init", "theirs", "--dry-run"),
        ("export", "theirs", "out"),
    ],
)
def test_no_model_is_looked_for(sage, words):
    sage("samples", "import", LOG, "--as", "theirs")
    typed = sage(*words)
    assert (typed.code, "imported samples and no model" in typed.words) == (2, True)


def test_lengths_need_token_counts(sage):
    file = WRITTEN / "samples_toy_2026-11-25T00-00-00.000000.jsonl"
    sage("samples", "import", file, "--as", "theirs")
    typed = sage("analyze", "lengths", "theirs")
    assert (typed.code, "have no token counts" in typed.words) == (2, True)


def test_golds_that_are_absent_are_named(sage):
    row = {"question": "q", "completion": "a", "correct": True}
    Path("mine.jsonl").write_text(json.dumps(row) + "\n")
    sage("samples", "import", "mine.jsonl", "--as", "mine")
    typed = sage("grade", "mine.jsonl")
    assert (typed.code, "has no golds" in typed.words) == (2, True)
    typed = sage("passk", "mine", "--set", "grading.judge=math")
    assert (typed.code, "came without a gold" in typed.words) == (2, True)


@pytest.mark.parametrize("measured", [True, False])
def test_the_pages_show_imported_samples(sage, measured):
    sage("samples", "import", LOG, "--as", "theirs")
    if measured:
        sage("passk", "theirs")
    api = Api(Path("runs"))
    (curve,) = api.answer("passk", {"policies": "theirs"})["curves"]
    assert list(curve["pass@k"]) == [0.25, 0.5, 0.75, 1.0]
    samples = api.answer("samples", {"policy": "theirs"})
    assert (samples["total"], samples["grades"]) == (12, {"right": 3, "wrong": 9})


def test_verdicts_grade_nothing_new(sage):
    Path("own.jsonl").write_text('{"gold": "1", "completion": "1"}\n')
    for words in (
        ("rl", "--set", "grading.judge=imported", "--dry-run"),
        ("grade", "own.jsonl", "--judge", "imported"),
    ):
        typed = sage(*words)
        assert (typed.code, "grades nothing new" in typed.words) == (2, True)
