"""The Hub's own client on a data set that lies on disk, and the Hub out of reach."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import httpx
import pytest
from huggingface_hub import HfApi, constants

from sage_cli.errors import DataError
from sage_cli.problems.data_set import DataSet
from sage_cli.problems.demonstrations import load_demonstrations
from sage_cli.problems.hub import read_hub
from sage_cli.problems.identity import problems_identity, training_identity
from sage_cli.problems.load import load_problems, load_training_problems
from sage_cli.problems.problem import problem_id
from sage_cli.problems.registry import ENTRIES, data_set, members
from sage_cli.problems.sources import open_source
from sage_cli.settings.data import DataSection
from sage_cli.settings.sft import SftSection

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def on_disk(tmp_path, monkeypatch):
    """SVAMP's declaration, pointed at a folder with two splits of made-up rows."""
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    folder = tmp_path / "set"
    folder.mkdir()
    for split, answers in (("train", (1.0, 2.0)), ("test", (3.0,))):
        rows = ({"Body": "b.", "Question": f"{split}?", "Answer": a} for a in answers)
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{split}.jsonl").write_text(text)
    return replace(data_set("svamp"), hub=str(folder), revision=None)


@pytest.fixture
def asked(monkeypatch):
    """What the Hub is asked for, which knows one commit of everything."""
    asked = []

    def dataset_info(self, name, revision, timeout):
        asked.append((name, revision, timeout))
        return SimpleNamespace(sha=COMMIT)

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(HfApi, "dataset_info", dataset_info)
    return asked


def test_rows_of_all_splits_with_the_commit_that_was_read(on_disk, asked):
    source = open_source(on_disk, DataSection())
    assert source.origin == f"{on_disk.hub}@{COMMIT}"
    places, rows = zip(*source.rows, strict=True)
    assert [row["Answer"] for row in rows] == [1.0, 2.0, 3.0]
    assert [place.rsplit("/")[-1] for place in places] == [
        "set, train, row 1",
        "set, train, row 2",
        "set, test, row 1",
    ]
    assert asked == [(on_disk.hub, None, 10.0)]


@pytest.mark.usefixtures("asked")
def test_another_split_is_read_with_the_same_columns(on_disk, monkeypatch, tmp_path):
    monkeypatch.setitem(ENTRIES, "svamp", on_disk)
    (tmp_path / "train").mkdir()
    (tmp_path / "train/svamp.jsonl").write_text("{}")  # a local copy is of the declared splits
    data = DataSection(root=tmp_path, rl={"name": "svamp", "split": "test"})
    assert [p.question for p in load_training_problems(data)] == ["b. test?"]
    whole = DataSection(root=tmp_path, rl={"name": "svamp"})
    assert training_identity(data)["problems"][0][0]["splits"] == ["test"]
    assert training_identity(data) != training_identity(whole)


@pytest.mark.parametrize("name", ["arithmetic", "aime", "mine.csv"])
def test_what_is_no_data_set_has_no_split_to_choose(name):
    source = {"name": name, "split": "test"}
    data = DataSection(rl=source, sft=source)
    for attempt in (load_training_problems, training_identity):
        with pytest.raises(DataError, match="only data sets of the Hub have splits"):
            attempt(data)
    with pytest.raises(DataError, match="only data sets of the Hub have splits"):
        load_demonstrations(data, SftSection(steps=1))


def test_offline_the_cache_decides_and_nobody_is_asked(on_disk, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(HfApi, "dataset_info", lambda *_, **__: pytest.fail("asked the Hub"))
    commit, rows = read_hub(on_disk)
    assert (commit, len(list(rows))) == ("unknown", 3)


def test_out_of_reach_names_the_file_and_the_folder(tmp_path, monkeypatch):
    def unreachable(*_, **__):
        raise httpx.ConnectError("Name or service not known")

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(HfApi, "dataset_info", unreachable)
    with pytest.raises(DataError) as caught:
        open_source(data_set("aime25"), DataSection())
    assert "no local copy of aime25" in caught.value.cause
    assert "Name or service not known" in caught.value.cause
    files = "benchmarks/aime2025-I.jsonl and benchmarks/aime2025-II.jsonl"
    assert caught.value.next_step == (
        f"put {files} into the folder that data.root or SAGE_DATA names"
    )
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks/aime2025-I.jsonl").write_text("{}\n")  # half a copy is none
    with pytest.raises(DataError) as caught:
        open_source(data_set("aime25"), DataSection(root=tmp_path))
    assert caught.value.next_step == f"put {files} into {tmp_path}"


def test_a_setting_pins_a_data_set_and_each_part_of_it(on_disk, asked, monkeypatch):
    monkeypatch.setitem(ENTRIES, "svamp", on_disk)
    part = replace(on_disk, name="svamp-part", part_of="svamp")
    monkeypatch.setitem(ENTRIES, "svamp-part", part)
    other = COMMIT[::-1]

    def commit(name, revisions):
        data = DataSection(rl={"name": name}, revisions=revisions)
        return training_identity(data)["problems"][0][0]["commit"]

    assert commit("svamp", {}) is None
    assert commit("svamp", {"svamp": COMMIT}) == commit("svamp-part", {"svamp": COMMIT}) == COMMIT
    assert commit("svamp-part", {"svamp": COMMIT, "svamp-part": other}) == other
    open_source(on_disk, DataSection(revisions={"svamp": COMMIT}))
    assert [revision for _, revision, _ in asked] == [COMMIT]


@pytest.mark.parametrize("name", ["aime", "arithmetic"])
def test_only_data_sets_have_revisions(name):
    data = DataSection(rl={"name": "svamp"}, revisions={name: COMMIT})
    for attempt in (load_training_problems, training_identity):
        with pytest.raises(DataError, match=f"data.revisions has {name}"):
            attempt(data)


def test_every_published_data_set_of_known_commit_is_pinned():
    sets = [entry for entry in ENTRIES.values() if isinstance(entry, DataSet)]
    loose = [one.name for one in sets if not re.fullmatch("[0-9a-f]{40}", one.revision or "")]
    declared = ["aime26", "hmmt25-feb", "hmmt25-nov", "olympiadbench"]  # from their pages
    assert loose == [*declared, "openmathreasoning-mini"]


@pytest.fixture
def cached(tmp_path, monkeypatch):
    """A function that puts rows into the Hub's local cache, as `hf download` leaves them."""
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)

    def put(name, **splits):
        folder = tmp_path / f"hub/datasets--{name.replace('/', '--')}/snapshots/{COMMIT}"
        folder.mkdir(parents=True)
        for split, rows in splits.items():
            text = "".join(json.dumps(row) + "\n" for row in rows)
            (folder / f"{split}.jsonl").write_text(text)

    return put


ROW = {"q": "1+1=?", "a": "2"}
COLUMNS = {"question": "q", "gold": "a"}


def test_any_data_set_of_the_hub_is_read_by_its_columns(cached):
    cached("my/sums", train=[ROW, {"q": "1+2=?", "a": 3}])
    data = DataSection(rl={"name": "my/sums", "fields": COLUMNS})
    assert [(p.question, p.gold) for p in load_training_problems(data)] == [
        ("1+1=?", "2"),
        ("1+2=?", "3"),
    ]
    (first, _) = load_training_problems(data)
    assert (first.benchmark, first.meta["origin"]) == ("my/sums", f"my/sums@{COMMIT}")
    assert training_identity(data)["problems"][0][0]["commit"] == COMMIT
    other = DataSection(rl={"name": "my/sums", "fields": COLUMNS | {"gold": "q"}})
    assert training_identity(data) != training_identity(other)
    pairs = DataSection(sft={"name": "my/sums", "fields": COLUMNS})
    assert load_demonstrations(pairs, SftSection(steps=1))[0].working is None


def test_a_split_of_several_is_named(cached):
    cached("my/sums", train=[ROW], test=[{"q": "5+4=?", "a": 9}])
    with pytest.raises(DataError, match="has the splits train, test") as refused:
        load_training_problems(DataSection(rl={"name": "my/sums", "fields": COLUMNS}))
    assert "ORG/NAME/CONFIGURATION:SPLIT" in (refused.value.next_step or "")
    for source in ({"name": "my/sums:test"}, {"name": "my/sums", "split": "test"}):
        data = DataSection(rl={**source, "fields": COLUMNS})
        (problem,) = load_training_problems(data)
        assert (problem.gold, problem.id) == ("9", problem_id("my/sums", "5+4=?", "9"))
        assert training_identity(data)["problems"][0][0]["splits"] == ["test"]


def test_columns_of_the_hub_are_a_known_programs_or_named(cached):
    turns = [{"role": "system", "content": "s"}, {"role": "user", "content": "1+1=?"}]
    cached("my/chats", train=[{"prompt": turns, "answer": "2"}])
    (problem,) = load_training_problems(DataSection(rl={"name": "my/chats"}))
    assert (problem.question, problem.gold) == ("1+1=?", "2")
    cached("my/sums", train=[ROW])
    with pytest.raises(
        DataError, match="my/sums, train, row 1 has no column 'question'"
    ) as refused:
        load_training_problems(DataSection(rl={"name": "my/sums"}))
    assert "its columns are q, a" in (refused.value.next_step or "")


def test_without_the_hub_and_its_cache_the_panel_says_how_to_fill_it(cached):
    with pytest.raises(
        DataError, match="no local copy of my/sums, and my/sums couldn't"
    ) as refused:
        load_training_problems(DataSection(rl={"name": "my/sums", "fields": COLUMNS}))
    assert "hf download --repo-type dataset my/sums" in (refused.value.next_step or "")


def test_a_declared_data_set_is_named_by_its_own_name():
    with pytest.raises(DataError, match=r"openai/gsm8k is known as gsm8k \(GSM8K, test\)"):
        load_training_problems(DataSection(rl={"name": "openai/gsm8k"}))
    (source,) = members("openai/gsm8k/main:train")
    assert (source.hub, source.config, source.splits) == ("openai/gsm8k", "main", ("train",))
    (source,) = members("HuggingFaceH4/MATH-500:test")
    assert (source.config, source.splits, source.question) == (None, ("test",), ())


def test_a_path_that_is_there_is_no_name_of_the_hub(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my").mkdir()
    (tmp_path / "my/rows.txt").write_text("")
    with pytest.raises(DataError, match=r"unknown benchmark 'my/rows\.txt'"):
        load_training_problems(DataSection(rl={"name": "my/rows.txt"}))


def test_a_files_parts_share_out_its_questions_whatever_their_order(tmp_path):
    rows = [{"question": f"{n}+1=?", "gold": str(n + 1)} for n in range(500)]
    file = tmp_path / "train.jsonl"
    data, parts = DataSection(), {}
    for order in (rows, rows[::-1]):
        file.write_text("".join(json.dumps(row) + "\n" for row in order))
        for part in ("", ":dev", ":train"):
            ids = {problem.id for problem in load_problems(f"{file}{part}", data)}
            assert parts.setdefault(part, ids) == ids
    assert parts[":dev"] | parts[":train"] == parts[""]
    assert not parts[":dev"] & parts[":train"]
    # a tenth of 500 with a standard deviation of (500 x .1 x .9) ** .5 = 6.7
    assert 30 <= len(parts[":dev"]) <= 70
    identities = [problems_identity(f"{file}{part}", data)["problems"] for part in parts]
    assert identities[1] != identities[0] != identities[2] != identities[1]


def test_a_part_is_all_that_demonstrations_are_made_of(tmp_path):
    file = tmp_path / "shown.jsonl"
    rows = [{"question": f"{n}+1=?", "gold": str(n), "working": "w"} for n in range(40)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    counts = []
    for part in ("", ":dev", ":train"):
        source = {"name": f"{file}{part}", "fields": {"working": "working"}}
        counts.append(len(load_demonstrations(DataSection(sft=source), SftSection())))
    assert counts[0] == counts[1] + counts[2] == 40
    assert counts[1]
