import gzip
import io
import json
import tarfile

import pytest
from stored import completion

from sage_cli.errors import StoreError
from sage_cli.store.archive import sets_of, unpacked, write_archive
from sage_cli.store.run import Runs
from sage_cli.store.samples import SampleIdentity, SampleSet


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
    said["files"] = {"runs/rl-dapo-11111111/../../out": "0"}
    return {**content, "archive.json": json.dumps(said).encode()}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (changed_value, "metrics.jsonl isn't what was archived"),
        (without_one, "metrics.jsonl is missing"),
        (with_one_more, "more, which it doesn't list"),
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
    assert list((tmp_path / "to").iterdir()) == []


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
