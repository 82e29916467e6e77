"""The page as one file: what it holds of which runs, and that no text in it can end an element."""

import base64
import json
import re

import pytest
from shown_runs import stored_run

from sage_cli.errors import ConfigurationError
from sage_cli.store.json_files import compact_json
from sage_cli.view import page_file
from sage_cli.view.page_file import (
    FILES,
    PAGE,
    contents,
    in_script,
    page_of,
    write_export,
    write_page,
)

BASE, BRANCH, PLAIN = "sft-arithmetic-aaaaaaaa", "rl-dapo-branch-bbbbbbbb", "rl-dapo-cccccccc"
SWEEP, SUITE = "tau-rho-12345678", "demo-12345678"

CONTENTS = {
    "begin": "#/runs",
    "footer": "</script><b>said</b>",
    "answers": {},
    "records": {},
    "policies": [],
    "differences": [],
}


def test_no_script_is_ended_inside_the_page():
    text = in_script({"text": "</script><!-- <script>"})
    assert "<" not in text
    assert json.loads(text) == {"text": "</script><!-- <script>"}
    for name in FILES:
        if name.startswith("vendor/") and name.endswith(".js"):
            assert "</script" not in (PAGE / name).read_text().lower()


def test_every_module_imports_modules_of_the_page():
    page = page_of(CONTENTS)
    imports = json.loads(re.search(r'<script type="importmap">(.*?)</script>', page)[1])["imports"]
    assert {f"sage/{name}" for name in FILES if name.endswith(".js")} - {*imports} == {
        "sage/vendor/d3.min.js",
        "sage/vendor/plot.min.js",
        "sage/early.js",  # asks the server
    }
    for name, address in imports.items():
        text = base64.b64decode(address.partition(",")[2]).decode()
        pattern = r'^(?:import|export) .* from "([^"]+)";$|import\("([^"]+)"\)'
        for either in re.findall(pattern, text, re.M):
            assert "".join(either) in imports, (name, either)


def test_nothing_in_it_is_fetched_and_licences_come_with_it():
    page = page_of(CONTENTS)
    assert not re.search(r'(?:src|href)="(?!data:|#)', page)
    assert "connect-src" not in page  # so default-src 'none' holds
    assert "default-src 'none'" in page
    licences = re.search("<!--(.*?)-->", page_of(CONTENTS), re.S)[1]
    assert "Mike Bostock" in licences
    assert "Observable" in licences


def test_an_export_may_be_written_again_and_other_files_are_left_alone(shown, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    for folder in (tmp_path, tmp_path / "mine.txt"):
        with pytest.raises(ConfigurationError, match="contains something else than an export"):
            write_export(shown, folder)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    for _ in range(2):
        file = write_export(shown, tmp_path / "page", "run", BASE)
    assert file == tmp_path / "page" / "index.html"
    assert read(file)["begin"] == f"#/run?run={BASE}"


def read(file):
    """The data of a page."""
    return json.loads(re.search(r'id="data">(.*?)</script>', file.read_text())[1])


def ids(held):
    return [row["values"]["id"] for row in held["answers"]["runs"]["runs"]]


@pytest.mark.parametrize(
    ("kind", "name", "runs"),
    [
        ("run", BRANCH, {BASE, BRANCH}),  # with the run that it grew from
        ("sweep", SWEEP, {BASE, BRANCH, PLAIN}),
        ("suite", SUITE, {BASE, BRANCH}),
    ],
)
def test_what_was_named_comes_with_its_runs(shown, tmp_path, kind, name, runs):
    write_page(shown, tmp_path / "page.html", kind, name)
    held = read(tmp_path / "page.html")
    assert held["begin"] == f"#/{kind}?{kind}={name}"
    assert set(ids(held)) == runs
    assert set(held["records"]) == runs
    for each, there in (("sweep", SWEEP), ("suite", SUITE)):
        listed = [row["name"] for row in held["answers"][f"{each}s"][f"{each}s"]]
        assert listed == [there] * (kind == each)
        assert (f"{each}?{each}={there}" in held["answers"]) == (kind == each)
    assert held["answers"][f"{kind}?{kind}={name}"]


def test_a_page_holds_everything_or_every_sample_of_a_sweeps_runs(shown):
    held = contents(shown)
    assert set(ids(held)) == {BASE, BRANCH, PLAIN, "rl-torn-dddddddd"}
    assert held["begin"] == "#/runs"
    assert held["answers"][f"sweep?sweep={SWEEP}"]["report"]
    assert held["answers"][f"suite?suite={SUITE}"]["report"]
    assert "rl-torn-dddddddd" in held["footer"]  # its samples are not there, and why
    assert "rl-torn-dddddddd is not a run: it has no config.json" in held["footer"]
    held = contents(shown, "sweep", SWEEP)
    assert [len(one["samples"]) for one in held["policies"]] == [48, 48, 48]
    assert "144 of 144 samples" in held["footer"]
    assert held["records"][BRANCH]["values"]["reward"]
    first = held["policies"][0]["policy"]
    pairs = {(one["a"], one["b"]) for one in held["differences"]}
    assert pairs == {(name, first) for name in (BASE, BRANCH, PLAIN) if name != first}
    json.loads(compact_json(held))


def test_samples_are_shared_out_and_the_first_of_each_problem(tmp_path, monkeypatch):
    for name, letter in (("one", "a"), ("two", "b")):
        stored_run(tmp_path, name, letter, lambda _, at: (str(at) * 9, "right"), kind="sft")
    monkeypatch.setattr(page_file, "MOST_SAMPLES", 28)
    monkeypatch.setattr(page_file, "SHOWN_CHARACTERS", 4)
    held = contents(tmp_path)
    assert "28 of 96 samples" in held["footer"]
    for one in held["policies"]:  # 14 samples of six problems: two of each, and two third ones
        assert [row["index"] for row in one["samples"]] == [0, 1, 2] * 2 + [0, 1] * 4
        assert [(row["text"], row["characters"]) for row in one["samples"][:2]] == [
            ("0000", 9),
            ("1111", 9),
        ]


def test_curves_have_evenly_spaced_steps_and_the_last_one(tmp_path):
    run = stored_run(tmp_path, "one", "a")
    for step in range(1, 1002):
        run.metrics.append({"step": step, "reward": step / 2})
    read = contents(tmp_path)["records"][run.id]
    assert len(read["steps"]) == 100
    assert (read["steps"][0], read["steps"][1], read["steps"][-1]) == (1, 11, 1001)
    assert read["values"]["reward"] == [step / 2 for step in read["steps"]]
