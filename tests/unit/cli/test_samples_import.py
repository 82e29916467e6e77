"""`sage samples import`, and what takes an imported name like a run's."""

import json
from pathlib import Path

import pytest

from sage_cli.store.run import Run
from sage_cli.view.api import Api

WRITTEN = Path(__file__).resolve().parents[2] / "data/imported"
LOG = WRITTEN / "inspect.eval"
ROW = {"question": "q", "gold": "4", "completion": "4", "correct": True}


@pytest.fixture
def theirs(sage):
    """A log, imported under this name."""
    sage("samples", "import", LOG, "--as", "theirs")


def write(file, *rows):
    Path(file).write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_samples_are_measured_like_a_runs(sage, answer):
    dry = answer("samples", "import", LOG, "--as", "theirs", "--dry-run")
    assert (dry["right"], dry["stored"], Path("runs").exists()) == (3, False, False)
    said = answer("samples", "import", LOG, "--as", "theirs")
    assert (said["right"], said["samples"], said["unknown"]) == (3, 12, ["top_p"])
    report = answer("passk", "theirs")
    # three right of twelve: pass@1 is 3/12; with one right of four a problem, pass@k is k/4
    assert report["curves"][0]["pass@k"] == [0.25, 0.5, 0.75, 1.0]
    assert report["provenance"]["sampling"]["temperature"] == 0.8
    assert report["provenance"]["benchmarks"][0]["grader"]["mode"] == "imported"
    graded = answer("grade", LOG)
    assert graded["statuses"]["imported"]["right"] == 3
    assert graded["statuses"]["math-verify"]["right"] == 3  # the golds are plain numbers
    assert answer("samples", "show", "theirs", "--grade", "right")["samples"]
    first = sage("samples", "show", "theirs", "--limit", "2").words
    assert "these are the first 2 completions, of 1 problem: --limit N shows more" in first
    assert "these are the first" not in sage("samples", "show", "theirs", "--limit", "99").words
    assert answer("analyze", "majority", "theirs")["name"] == "majority"
    again = sage("samples", "import", LOG, "--as", "theirs")
    assert "is stored already" in again.words
    other = sage("samples", "import", WRITTEN / "lighteval.parquet", "--as", "theirs")
    other.refused("contains something else")


def test_imported_samples_without_verdicts_are_said_to_lack_grades(sage, answer):
    write("plain.jsonl", {"question": "3*4=?", "gold": "12", "completion": "12"})
    sage("samples", "import", "plain.jsonl", "--as", "plain")
    for words in ((), ("--grade", "right")):
        sage("samples", "show", "plain", *words).refused(
            "is stored and graded", "`sage passk plain` samples and grades what is missing"
        )
    answer("passk", "plain", "--n", "1", "--k", "1")
    assert answer("samples", "show", "plain", "--grade", "right")["samples"]
    typed = sage("samples", "show", "plain", "--grade", "wrong")
    assert "no wrong completion of plain" in typed.words


def test_two_files_of_the_same_problems_are_compared(sage, answer, theirs):
    texts = (("3*4=?", "12", "12"), ("5*6=?", "30", "31"), ("2+5=?", "7", "8"))
    rows = [{"question": q, "gold": g, "completion": c, "correct": c == g} for q, g, c in texts]
    write("ours.jsonl", *rows)
    sage("samples", "import", "ours.jsonl", "--as", "ours")
    # the first samples alone: 12 and nothing else is right of theirs, too
    typed = ("compare", "theirs", "ours", "--n", "1", "--k", "1")
    assert answer(*typed)["name"] == "compare"
    assert "unparseable" not in sage(*typed).words
    # sage's judge looks between tags, where the samples of another program have nothing
    unread = sage(*typed, "--set", "grading.judge=math", "--set", "grading.extract=tags").words
    assert "ours on runs/theirs/problems.jsonl, evaluation seed 0: 3 unparseable" in unread
    sage("compare", "theirs", "ours").refused("9 of the requested samples are not in it")


def test_a_run_and_a_file_are_compared_directly(sage, answer, theirs):
    texts = (("3*4=?", "12", "12"), ("5*6=?", "30", "31"), ("9*9=?", "81", "8"))
    rows = [{"question": q, "gold": g, "completion": c, "correct": c == g} for q, g, c in texts]
    write("ours.jsonl", *rows)
    found = answer("compare", "theirs", "ours.jsonl", "--k", "1")
    (comparison,) = found["comparisons"].values()
    # of the two problems that both have: 1/4 and 1/4 of theirs, 1 and 0 of ours
    assert comparison["problems"] == 2
    assert comparison["difference"] == pytest.approx([(0.25 - 1 + 0.25 - 0) / 2])
    assert found["unmatched"] == {"theirs": found["unmatched"]["theirs"], "ours.jsonl": ["9*9=?"]}
    assert [file["file"] for file in found["files"]] == ["theirs", "ours.jsonl"]
    turned = answer("compare", "ours.jsonl", "theirs", "--k", "1")["comparisons"]
    (turned,) = turned.values()
    assert turned["difference"] == pytest.approx([0.25])
    sage("compare", "theirs", "ours.jsonl", "--k", "4").refused("pass@4 is undefined with 1 sample")


def test_a_file_without_verdicts_is_graded_on_the_spot(sage, answer):
    rows = [
        {"question": "3*4=?", "gold": "12", "completions": ["\\boxed{12}", "\\boxed{13}"]},
        {"question": "5*6=?", "gold": "30", "completions": ["\\boxed{30}", "no idea"]},
    ]
    write("plain.jsonl", *rows)
    found = answer("passk", "plain.jsonl", "--k", "1,2")
    assert found["curves"][0]["pass@k"] == pytest.approx([0.5, 1.0])
    (file,) = found["files"]
    assert (file["judge"]["judge"], file["judge"]["mode"]) == ("math", "strict")
    assert Path(file["graded_in"]).is_relative_to("runs/samples")
    assert "2 of 4 samples correct, 1 unparseable" in file["notes"][1]
    said = sage("passk", "plain.jsonl", "--k", "1,2").words
    assert "graded by sage's judge math (strict)" in said
    assert "the grades are kept in runs/samples" in said
    assert sorted(path.name for path in Path().glob("*")) == ["plain.jsonl", "runs"]
    loose = ("--set", "grading.extract=text", "--set", "grading.mode=math-verify")
    assert answer("passk", "plain.jsonl", *loose)["files"][0]["judge"]["mode"] == "math-verify"
    # a judge that is named grades what has verdicts, too
    write("wrong.jsonl", *({**row, "correct": [False, False]} for row in rows))
    assert answer("passk", "wrong.jsonl", "--k", "1")["curves"][0]["pass@k"][0] == 0.0
    judged = answer("passk", "wrong.jsonl", "--k", "1", "--set", "grading.judge=math")
    assert judged["curves"][0]["pass@k"][0] == 0.5
    assert answer("compare", "plain.jsonl", "wrong.jsonl", "--k", "1")["files"][0]["judge"]


def test_the_stored_configuration_names_no_other_file_and_may_be_moved(answer, theirs):
    config = Path("runs/theirs/config.json")
    stored = json.loads(config.read_text())
    stored["evaluation"]["benchmark"] = "/etc/passwd.jsonl"
    stored["sampling"]["servers"] = ["http://elsewhere"]
    config.write_text(json.dumps(stored))
    Run(config.parent).note(files=None)  # whoever edits a run may edit this, too
    assert answer("passk", "theirs")["curves"][0]["benchmark"] == "runs/theirs/problems.jsonl"
    Path("runs").rename("elsewhere")
    report = answer("passk", "theirs", "--runs", "elsewhere")
    assert report["curves"][0]["benchmark"] == "elsewhere/theirs/problems.jsonl"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--as ../out", "a name has letters,"),
        ("--as samples", "a name has letters,"),
        ("--as x --score other", "no score 'other'"),
    ],
)
def test_nothing_is_written_where_something_is_refused(sage, words, said):
    typed = sage("samples", "import", LOG, *words.split())
    typed.refused(said)
    assert typed.written == []


@pytest.mark.parametrize("field", ["problem", "question", "gold", "completion"])
def test_half_a_character_is_replaced_and_said_so(answer, field):
    write("mine.jsonl", {"problem": "p", **ROW, field: "cut \ud83d"})
    said = answer("samples", "import", "mine.jsonl", "--as", "mine")
    assert "1 sample: lone surrogates were replaced by U+FFFD" in said["notes"]
    assert (said["right"], answer("passk", "mine")["curves"][0]["pass@k"]) == (1, [1.0])
    (sample,) = answer("samples", "show", "mine")["samples"]
    assert ("cut \ufffd" in sample["completion"]["text"]) == (field == "completion")


def test_a_file_name_that_is_no_text(answer):
    write("m\udcff.jsonl", ROW)
    assert answer("samples", "import", "m\udcff.jsonl", "--as", "mine")["right"] == 1


@pytest.mark.parametrize(
    "words", ["analyze entropy theirs", "rl --init theirs --dry-run", "export theirs out"]
)
def test_no_model_is_looked_for(sage, theirs, words):
    sage(*words.split()).refused("imported samples without a model, so that it cannot")


def test_what_imported_samples_lack_is_named(sage):
    file = WRITTEN / "samples_toy_2026-11-25T00-00-00.000000.jsonl"
    sage("samples", "import", file, "--as", "theirs")
    sage("analyze", "lengths", "theirs").refused("have no token counts")
    write("mine.jsonl", {"question": "q", "completion": "a", "correct": True})
    sage("samples", "import", "mine.jsonl", "--as", "mine")
    sage("grade", "mine.jsonl").refused("has no reference answers")
    sage("passk", "mine", "--set", "grading.judge=math").refused(
        "have no reference answer, so that"
    )
    write("own.jsonl", {"gold": "1", "completion": "1"})
    for words in ("rl --set grading.judge=imported --dry-run", "grade own.jsonl --judge imported"):
        sage(*words.split()).refused("samples, and cannot grade new")


@pytest.mark.parametrize("measured", [True, False])
def test_the_pages_show_imported_samples(sage, theirs, measured):
    if measured:
        sage("passk", "theirs")
    api = Api(Path("runs"))
    (curve,) = api.answer("passk", {"policies": "theirs"})["curves"]
    assert list(curve["pass@k"]) == [0.25, 0.5, 0.75, 1.0]
    samples = api.answer("samples", {"policy": "theirs"})
    assert (samples["total"], samples["grades"]) == (12, {"right": 3, "wrong": 9})
