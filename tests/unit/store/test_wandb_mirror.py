"""The W&B mirror, offline: read back from the file that `wandb sync` would upload."""

import json
import struct
import time

import pytest
import wandb
from wandb.proto import wandb_internal_pb2

from sage_cli.config.evaluation import TrackingSection
from sage_cli.store.run import Runs
from sage_cli.store.wandb_mirror import WandbMirror

BLOCK, HEADER = 32768, struct.Struct("<IHB")
"""W&B writes LevelDB's log format: blocks of 32 KiB; checksum, length, type before each piece."""


def mirrored(run):
    """The steps and losses in the one offline directory of `run`, and its configuration."""
    (path,) = (run.folder / "wandb").glob("offline-run-*/run-*.wandb")
    history, config = [], {}
    for record in whole(path):
        if record.WhichOneof("record_type") == "history":
            items = {item.key or item.nested_key[0]: item for item in record.history.item}
            values = {key: json.loads(item.value_json) for key, item in items.items()}
            history.append((values["_step"], values["loss"]))
        if record.WhichOneof("record_type") == "run":
            config |= {item.key: json.loads(item.value_json) for item in record.run.config.update}
            config["group"] = record.run.run_group
    return history, config


def whole(path):
    """All records; W&B's own process may write the last of them after `finish` has returned."""
    for _ in range(600):
        found = list(records(path.read_bytes()))
        if found and found[-1].WhichOneof("record_type") == "exit":
            return found
        time.sleep(0.05)
    pytest.fail(f"{path} was never finished")


def records(data):
    place, begun = 7, b""  # the file's own header
    while place + HEADER.size <= len(data):
        left = BLOCK - place % BLOCK
        if left < HEADER.size:
            place += left
            continue
        _, length, kind = HEADER.unpack_from(data, place)
        piece = data[place + HEADER.size : place + HEADER.size + length]
        place += HEADER.size + length
        if len(piece) < length:
            return
        begun = piece if kind in (1, 2) else begun + piece
        if kind in (1, 4):  # whole, or the last piece
            yield wandb_internal_pb2.Record.FromString(begun)


@pytest.fixture
def run(tmp_path):
    return Runs(tmp_path).at("rl", "dapo-branch", "1" * 8)


def train(run, steps, tracking=None):
    """What a training does at every step: first the file, then the mirror."""
    mirror = WandbMirror(
        tracking or TrackingSection(group="tau-rho-1"), run, {"rl": {"a": 1}}, "rl"
    )
    for step in steps:
        record = {"step": step, "of": 4, "loss": step / 10}
        run.metrics.append(record)
        mirror.log(record)
    mirror.close()


def test_one_directory_holds_every_step_after_a_resumption(run):
    train(run, (1, 2, 3))
    history, config = mirrored(run)
    assert history == [(1, 0.1), (2, 0.2), (3, 0.3)]
    assert config["rl"] == {"a": 1}
    assert config["group"] == "tau-rho-1"
    run.metrics.rewind(2)  # interrupted: goes on from the checkpoint of step 2
    train(run, (3, 4))
    history, _ = mirrored(run)
    assert history == [(1, 0.1), (2, 0.2), (3, 0.3), (4, 0.4)]


@pytest.mark.parametrize("broken", ["init", "log", "finish"])
def test_whatever_wandb_does_training_goes_on(run, monkeypatch, caplog, broken):
    class Broken:
        def log(self, *_, **__):
            if broken == "log":
                raise OSError("disk full")

        def finish(self):
            raise OSError("disk full")

    def init(**_):
        if broken == "init":
            raise wandb.errors.CommError("no service")
        return Broken()

    monkeypatch.setattr(wandb, "init", init)
    train(run, (1, 2, 3))
    assert [record["step"] for record in run.metrics.read()] == [1, 2, 3]
    assert len(caplog.records) == 1  # said once, not at every step
    assert "metrics.jsonl is whole" in caplog.text


def test_off_starts_nothing(run, monkeypatch):
    monkeypatch.setattr(wandb, "init", lambda **_: pytest.fail("W&B was started"))
    train(run, (1,), TrackingSection(wandb="off"))
    assert not (run.folder / "wandb").exists()
