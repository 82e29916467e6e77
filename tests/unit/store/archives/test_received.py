"""Sample sets of somebody else: what later readings would stumble over is found before."""

import hashlib
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from stored import IDENTITY, completion, put

from sage_cli.errors import StoreError
from sage_cli.store.archives.received import check_sets, put_set
from sage_cli.store.samples.annotations import GradeStore
from sage_cli.store.samples.parts import SCHEMA
from sage_cli.store.samples.sample_set import SampleIdentity, SampleSet

GRADER = {"judge": "plain"}


@pytest.fixture
def ours(tmp_path):
    return drawn(tmp_path / "ours")


@pytest.fixture
def theirs(tmp_path):
    return drawn(tmp_path / "theirs")


def drawn(root):
    """The set below `root`, described and still without samples."""
    samples = SampleSet(root, IDENTITY)
    with samples.writing({"engine": root.name}):
        return samples


def graded(samples, status):
    store = GradeStore(samples, GRADER)
    store.add([(row, status, row.text) for row in samples.completions()])
    store.flush()
    return store


def received(theirs, ours):
    """What a restore does with one set."""
    models = check_sets(theirs.root, ours.root)
    put_set(theirs.folder, ours.folder)
    return models


def texts(samples):
    found = SampleSet(samples.root, samples.identity).completions()
    return {(row.problem_id, row.index): row.text for row in found}


def test_a_set_of_ones_own(theirs, ours, tmp_path):
    put(theirs, completion(index=0), completion(index=1))
    graded(theirs, "right")
    elsewhere = SampleSet(tmp_path / "elsewhere", IDENTITY)
    assert received(theirs, elsewhere) == {IDENTITY.key: IDENTITY.model}
    assert texts(elsewhere) == {("p", 0): "1+1=2", ("p", 1): "1+1=2"}
    assert GradeStore(elsewhere, GRADER).count(["p"], 8) == 2
    assert elsewhere.engine == "theirs"


def test_sets_are_merged_and_what_was_here_stays(theirs, ours):
    put(ours, completion(index=0), completion(index=1))
    graded(ours, "wrong")
    before = {file: file.read_bytes() for file in ours.folder.rglob("*") if file.is_file()}
    put(theirs, completion(index=1), completion(index=2, text="more"), number=7)
    graded(theirs, "right")
    received(theirs, ours)
    engines = ours.folder / "engines.json"
    assert all(file.read_bytes() == text for file, text in before.items() if file != engines)
    assert texts(ours) == {("p", 0): "1+1=2", ("p", 1): "1+1=2", ("p", 2): "more"}
    assert ours.engine == "ours, theirs"
    grades = [status for _, status, _ in GradeStore(ours, GRADER).stream(["p"], 8)]
    assert grades == ["wrong", "wrong"]  # theirs about our samples is left out


def test_other_texts_are_refused_before_anything_is_put_in_place(theirs, ours):
    put(ours, completion(index=0), completion(index=1))
    put(theirs, completion(index=1, text="1+1=3"))
    listed = sorted(ours.folder.rglob("*"))
    with pytest.raises(StoreError, match="different texts for sample 1 of problem p") as caught:
        check_sets(theirs.root, ours.root)
    assert str(ours.folder) in caught.value.cause
    assert "both" not in caught.value.cause
    assert sorted(ours.folder.rglob("*")) == listed
    assert len(texts(ours)) == 2


def test_a_set_that_contradicts_itself(theirs, ours):
    put(theirs, completion(index=0), number=0)
    put(theirs, completion(index=0, text="1+1=3"), number=1)
    with pytest.raises(StoreError, match="different texts for sample 0"):
        check_sets(theirs.root, ours.root)


def built(folder, content):
    """A part of any bytes whose name vouches for them."""
    checksum = hashlib.sha256(content).hexdigest()[:16]
    (folder / f"part-{'a' * 8}-000000-{checksum}.parquet").write_bytes(content)


def parquet(table):
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    return sink.getvalue().to_pybytes()


def table(**changes):
    row = {"problem_id": "p", "index": 0, "seed": 0, "text": "a", "tokens": 1,
           "finish_reason": "stop", "token_ids": [1]}  # fmt: skip
    return pa.table({name: [value] for name, value in {**row, **changes}.items()}, schema=SCHEMA)


def no_text():
    """Bytes that aren't UTF-8 in a column that says they are."""
    texts = pa.array([b"\xff\xfe"]).cast(pa.binary())
    wrong = pa.Array.from_buffers(pa.string(), 1, texts.buffers())
    return table().set_column(3, SCHEMA.field("text"), wrong)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"PAR1", b"PAR1" + b"\xff" * 64 + b"PAR1",
        parquet(pa.table({"a": [1]})),
        parquet(table().drop_columns("text")),
        parquet(table().drop_columns("token_ids")),
        parquet(table(index=-1)),
        parquet(table(index=2**31 - 1)),  # 8 GB of places
        parquet(table(index=None)),
        parquet(table(problem_id=None)),
        parquet(table(text=None)),
        parquet(no_text()),
        parquet(pa.table({"index": pa.nulls(2 * 10**6)})),
    ],
    ids=range(13),
)  # fmt: skip
def test_a_part_that_was_built_to_harm(theirs, ours, content):
    built(theirs.folder, content)
    with pytest.raises(StoreError, match="of the archive can't be used"):
        check_sets(theirs.root, ours.root)
    assert not list(ours.root.rglob("*.parquet"))


def test_a_torn_part(theirs, ours):
    part = put(theirs, completion())
    part.write_bytes(part.read_bytes()[:-1])
    with pytest.raises(StoreError, match="of the archive can't be used"):
        check_sets(theirs.root, ours.root)


@pytest.mark.parametrize(
    "said",
    [{}, {"model": 5, "template": "t", "sampling": {}, "seed": 0},
     {"model": "m", "template": "t", "sampling": {}, "seed": 0},
     {"model": "m" * 16, "template": "t" * 12, "sampling": {"temperature": 1.0}, "seed": 1}],
)  # fmt: skip
def test_a_set_is_what_its_folder_is_called(theirs, ours, said):
    (theirs.folder / "set.json").write_text(json.dumps(said))
    with pytest.raises(StoreError, match=r"its set\.json describes (no sample|another) set"):
        check_sets(theirs.root, ours.root)


def test_grades_that_cannot_be_read_are_found_anew(theirs, ours, tmp_path):
    put(theirs, completion())
    (sealed,) = graded(theirs, "right").folder.glob("*.grades")
    sound = sealed.read_bytes()
    for name, content in {
        "a": b"", "b": sound[:-1], "c": hashlib.sha256(b"x").digest() + b"x", "d": sound,
    }.items():  # fmt: skip
        sealed.with_name(f"{name}.grades").write_bytes(content)
    elsewhere = SampleSet(tmp_path / "elsewhere", SampleIdentity(**vars(IDENTITY)))
    received(theirs, elsewhere)
    kept = sorted(file.name for file in elsewhere.folder.rglob("*.grades"))
    assert kept == sorted(["d.grades", sealed.name])
    assert GradeStore(elsewhere, GRADER).count(["p"], 8) == 1


def test_nothing_is_left_of_the_check(theirs, ours):
    put(theirs, completion())
    before = sorted(theirs.root.rglob("*"))
    check_sets(theirs.root, ours.root)
    assert sorted(theirs.root.rglob("*")) == before
