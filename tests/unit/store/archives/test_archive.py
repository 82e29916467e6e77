import gzip
import hashlib
import io
import json
import tarfile
import tracemalloc
from contextlib import suppress

import pytest
from stored import completion

from sage_cli.errors import StoreError
from sage_cli.store.archives.archive import sets_of, unpacked, write_archive
from sage_cli.store.runs.run import Runs
from sage_cli.store.samples.sample_set import SampleIdentity, SampleSet


@pytest.fixture
def made(tmp_path):
    """A run with weights and checkpoints, a sample set of its model and one of another's."""
    root = tmp_path / "runs"
    run = Runs(root).at("rl", "dapo", "1" * 8)
    with run.recording({"rl": {"steps": 1}}, kind="rl"):
        run.metrics.append({"step": 1, "reward": 0.5})
    for name in ("model/model.safetensors", "checkpoints/checkpoint-1/state.pt", "wandb/x"):
        (run.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (run.folder / name).write_bytes(b"heavy")
    (run.model / "config.json").write_text("{}")
    for model in ("m" * 16, "other"):
        samples = SampleSet(root, SampleIdentity(model, "t", {}, 0))
        with samples.writing({"engine": "test"}) as writer:
            writer.claim(["p"], 1)
            writer.add(completion())
    return root, run


@pytest.fixture
def packed(made, tmp_path):
    root, run = made
    file = tmp_path / "run.tar.gz"
    return file, write_archive(file, [run], sets_of(root, ["m" * 16]), {})


def members(file):
    with tarfile.open(file) as tar:
        return {m.name: tar.extractfile(m).read() for m in tar.getmembers()}


def rewritten(file, content):
    """The archive with other members, as somebody would pack it who unpacked it before."""
    with tarfile.open(file, "w:gz") as tar:
        for name, bytes_ in content.items():
            info = tarfile.TarInfo(name)
            info.size = len(bytes_)
            tar.addfile(info, io.BytesIO(bytes_))


def test_it_holds_settings_records_and_samples_and_no_weights(packed):
    file, archive = packed
    names = list(archive.files)
    assert "runs/rl-dapo-11111111/config.json" in names
    assert "runs/rl-dapo-11111111/metrics.jsonl" in names
    assert "runs/rl-dapo-11111111/model/config.json" in names
    assert len(archive.sample_sets) == 1
    assert sum(name.endswith(".parquet") for name in names) == 1
    assert not any("safetensors" in n or "checkpoints" in n or "wandb" in n for n in names)
    assert not any("/." in name for name in names)  # no locks
    assert set(members(file)) == {"archive.json", *names}


def test_the_same_run_makes_the_same_bytes(made, packed, tmp_path):
    root, run = made
    file, archive = packed
    again = write_archive(tmp_path / "again.tar.gz", [run], sets_of(root, ["m" * 16]), {})
    assert again.digest == archive.digest
    assert (tmp_path / "again.tar.gz").read_bytes() == file.read_bytes()


def test_it_is_unpacked_beside_and_gone_afterwards(packed, tmp_path):
    file, archive = packed
    with unpacked(file, tmp_path / "to") as (held, folder):
        assert held == archive
        record = (folder / "runs/rl-dapo-11111111/metrics.jsonl").read_text()
        assert json.loads(record)["reward"] == 0.5
    assert list((tmp_path / "to").iterdir()) == []


def changed_value(content):
    name = "runs/rl-dapo-11111111/metrics.jsonl"
    return {**content, name: content[name].replace(b"0.5", b"0.9")}


def without_one(content):
    return {name: text for name, text in content.items() if not name.endswith("metrics.jsonl")}


def with_one_more(content):
    return {**content, "runs/rl-dapo-11111111/more": b"x"}


def pointing_outside(content):
    said = json.loads(content["archive.json"])
    said["files"] = {"runs/rl-dapo-11111111/../../out": {"bytes": 1, "sha256": "0"}}
    return {**content, "archive.json": json.dumps(said).encode()}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (changed_value, "metrics.jsonl is not what was archived"),
        (without_one, "metrics.jsonl is missing"),
        (with_one_more, "more', which it does not list"),
        (pointing_outside, "part of no run or sample set"),
    ],
)
def test_a_changed_archive_is_refused(packed, tmp_path, change, said):
    file, _ = packed
    rewritten(file, change(members(file)))
    with (
        pytest.raises(StoreError, match=f"was changed after it was made: .*{said}"),
        unpacked(file, tmp_path / "to"),
    ):
        pass
    assert list((tmp_path / "to").glob("*")) == []


@pytest.mark.parametrize("torn", [lambda b: b[: len(b) // 2], lambda b: b"no archive"])
def test_a_torn_archive_is_refused(packed, tmp_path, torn):
    file, _ = packed
    file.write_bytes(torn(file.read_bytes()))
    with pytest.raises(StoreError), unpacked(file, tmp_path / "to"):
        pass


def test_another_format_and_no_archive(tmp_path):
    rewritten(tmp_path / "x.tar.gz", {"something": b""})
    with (
        pytest.raises(StoreError, match="begins without"),
        unpacked(tmp_path / "x.tar.gz", tmp_path),
    ):
        pass
    with pytest.raises(StoreError, match="there is no file"), unpacked(tmp_path / "none", tmp_path):
        pass
    assert gzip.decompress((tmp_path / "x.tar.gz").read_bytes())


def relisted(content, **changes):
    """The content with another list, as somebody makes it who wants to be believed."""
    listed = {**json.loads(content["archive.json"]), **changes}
    return {**content, "archive.json": json.dumps(listed).encode()}


def with_file(content, name, text=b"x"):
    files = json.loads(content["archive.json"])["files"]
    files[name] = {"bytes": len(text), "sha256": hashlib.sha256(text).hexdigest()}
    return {**relisted(content, files=files), name: text}


@pytest.fixture
def refusal(packed, tmp_path):
    """Why the archive is refused with what a function makes of its members."""

    file, _ = packed
    content = members(file)

    def refused(change):
        rewritten(file, change(content))
        with pytest.raises(StoreError) as caught, unpacked(file, tmp_path / "to"):
            pass
        assert list((tmp_path / "to").glob("*")) == []
        return caught.value.cause

    return refused


@pytest.mark.parametrize(
    "id_",
    ["../../.ssh", "..", "a/b", "", ".lock", "sweeps", "Reports", "samples", "suites", "-rf",
     "\x1b]52;c;eA==\x07", "rl dapo", "rl-é", "a" * 200],
)  # fmt: skip
def test_what_is_no_runs_id(refusal, id_):
    cause = refusal(lambda content: relisted(content, runs=[id_]))
    assert "which is no run's id" in cause
    assert cause.isprintable()


def test_ids_that_nothing_stands_behind(refusal):
    run = "rl-dapo-11111111"
    assert "it lists no run" in refusal(lambda c: relisted(c, runs=[]))
    assert "no runs/x/config.json" in refusal(lambda c: relisted(c, runs=[run, "x"]))
    assert "twice" in refusal(lambda c: relisted(c, runs=[run, run.upper()]))
    assert "no sample set's key" in refusal(lambda c: relisted(c, sample_sets=["../x"]))
    none = "0" * 16

    def with_an_empty_set(content):
        sets = json.loads(content["archive.json"])["sample_sets"]
        return relisted(content, sample_sets=[*sets, none])

    assert f"no samples/{none}/set.json" in refusal(with_an_empty_set)


@pytest.mark.parametrize(
    "name",
    ["model/modeling.py", "model/model.safetensors", "model/pytorch_model.bin", "model/a.so",
     "checkpoints/checkpoint-1/state.json", "warm-up/checkpoints/x.json", ".lock", "model/.x.json",
     "a/" * 9 + "x.json", "x" * 300 + ".json", "\x1b[2J.json", "a\\b.json", "model//x.json"],
)  # fmt: skip
def test_what_is_no_data_of_a_run(refusal, name):
    cause = refusal(lambda content: with_file(content, f"runs/rl-dapo-11111111/{name}"))
    assert "which is part of no run or sample set" in cause
    assert cause.isprintable()


@pytest.mark.parametrize("format_", [1, 3, 0, -1])
def test_another_format_is_named(refusal, format_):
    cause = refusal(lambda content: relisted(content, format=format_))
    assert f"has the format {format_}, and this release reads 2" in cause


@pytest.mark.parametrize(
    "text",
    [b"", b"[]", b"{}", b"[" * 10**5, b"\xff", b'{"format": "2"}', b'{"format": 2}', b"null",
     b'{"format": 2, "runs": 5, "sample_sets": [], "files": {}}',
     b'{"format": 2, "runs": ["a"], "sample_sets": [], "files": {"runs/a/config.json": "0"}}',
     b'{"format": 2, "runs": ["\\u001b[2J"], "sample_sets": [], "files": {}, "more": 1}'],
)  # fmt: skip
def test_a_list_that_is_none(refusal, text):
    assert "archive.json can't be read" in refusal(lambda c: {**c, "archive.json": text})


def test_sizes_are_those_of_the_list(refusal):
    name = "runs/rl-dapo-11111111/config.json"

    def lied(content):
        files = json.loads(content["archive.json"])["files"]
        files[name]["bytes"] += 1
        return relisted(content, files=files)

    assert f"{name} is not what was archived" in refusal(lied)
    huge = {"bytes": 2**52, "sha256": "0"}
    assert "more than 200 times as many" in refusal(
        lambda c: relisted(c, files=json.loads(c["archive.json"])["files"]
                           | {"runs/rl-dapo-11111111/metrics.jsonl": huge})
    )  # fmt: skip
    assert "Input should be less" in refusal(
        lambda c: relisted(c, files={name: {"bytes": 10**300, "sha256": "0"}})
    )


def test_links_and_devices_are_refused(packed, tmp_path):
    file, _ = packed
    content = members(file)
    name = "runs/rl-dapo-11111111/config.json"
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE):
        with tarfile.open(file, "w:gz") as tar:
            for member, text in content.items():
                info = tarfile.TarInfo(member)
                info.size = len(text)
                if member == name:
                    info.type, info.linkname, info.size = kind, "/etc/passwd", 0
                tar.addfile(info, io.BytesIO(text))
        with pytest.raises(StoreError, match="which it does not list"), unpacked(file, tmp_path):
            pass


@pytest.mark.parametrize("where", ["list", "listed", "unlisted", "pax", "after"])
def test_a_small_file_never_takes_much_memory(packed, tmp_path, where):
    """64 MB of zeros: as the list, as members, as a header of its own, and after the end."""
    file, _ = packed
    zeros, name = bytes(2**26), "runs/rl-dapo-11111111/zeros.json"
    content = members(file)
    if where == "listed":
        content = with_file(content, name, zeros)
    with gzip.open(file, "wb", compresslevel=1) as packing:
        info = tarfile.TarInfo("archive.json" if where == "list" else name)
        info.size, info.type = len(zeros), tarfile.XHDTYPE if where == "pax" else tarfile.REGTYPE
        if where != "list":
            for member in ("archive.json", *sorted(set(content) - {"archive.json"})):
                put(packing, member, content[member])
        if where == "after":
            packing.write(bytes(1024))
        if where != "listed":
            packing.write(info.tobuf(tarfile.USTAR_FORMAT))
            packing.write(zeros)
    del zeros, content
    tracemalloc.start()
    with suppress(StoreError), unpacked(file, tmp_path / "to") as (archive, folder):
        assert (folder / name).stat().st_size == archive.files[name]["bytes"] == 2**26
        assert where == "listed"
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**23


def put(packing, name, text):
    info = tarfile.TarInfo(name)
    info.size = len(text)
    packing.write(info.tobuf(tarfile.USTAR_FORMAT) + text + bytes(-len(text) % 512))


def test_a_run_that_could_not_be_restored_is_not_archived(made, tmp_path):
    _, run = made
    (run.folder / "a\nb.json").write_text("{}")
    with pytest.raises(StoreError, match="rl-dapo-11111111 can't be archived: it lists 'runs"):
        write_archive(tmp_path / "run.tar.gz", [run], [], {})
    (run.folder / "a\nb.json").rename(run.folder / ("x" * 120 + ".json"))
    with pytest.raises(StoreError, match=r"x\.json can't be archived: name is too long"):
        write_archive(tmp_path / "run.tar.gz", [run], [], {})
    assert not (tmp_path / "run.tar.gz").exists()
