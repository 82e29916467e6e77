"""How several processes are started: accelerate's configurations, and one that fails."""

import sys
from pathlib import Path

import pytest
import torch
import yaml
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.utils import DistributedType

from sage_cli.config.presets import shipped
from sage_cli.errors import ConfigurationError, TrainingError
from sage_cli.training.launch import accelerate_configuration, launch_command, run_together

on_cpu = pytest.mark.skipif(torch.cuda.is_available(), reason="refused on machines without a GPU")
KINDS = {
    "ddp": DistributedType.MULTI_GPU,
    "fsdp2": DistributedType.FSDP,
    "zero3": DistributedType.DEEPSPEED,
}


def test_the_shipped_configurations_are_these():
    assert {file.stem for file in shipped("configs/accelerate").glob("*.yaml")} == set(KINDS)


@pytest.mark.parametrize("name", KINDS)
def test_accelerate_reads_the_shipped_configurations(name):
    read = load_config_from_file(str(shipped("configs/accelerate") / f"{name}.yaml"))
    assert read.distributed_type == KINDS[name]
    assert read.num_processes == -1  # not said: accelerate insists on --num_processes
    assert read.mixed_precision == "no"  # the trainer's arguments decide
    assert read.use_cpu is False
    assert read.fsdp_config.get("fsdp_version") == (2 if name == "fsdp2" else None)
    assert read.deepspeed_config.get("zero_stage") == (3 if name == "zero3" else None)


def test_the_command_names_file_and_processes():
    file = accelerate_configuration("ddp")
    assert file == shipped("configs/accelerate") / "ddp.yaml"
    command = launch_command(3, ["a.module", "run"], file)
    assert command == [
        sys.executable, "-m", "accelerate.commands.launch", "--config_file", str(file),
        "--num_processes", "3", "-m", "a.module", "run",
    ]  # fmt: skip


def test_a_file_of_ones_own(tmp_path):
    own = tmp_path / "own.yaml"
    own.write_text("distributed_type: MULTI_GPU")
    assert accelerate_configuration(str(own)) == own
    with pytest.raises(ConfigurationError, match=r"there is no file .*gone\.yaml"):
        accelerate_configuration(str(tmp_path / "gone.yaml"))


@pytest.mark.parametrize("kind", ["MULTI_CPU", "NO", None])
def test_what_accelerate_would_start_as_one_process_is_refused(tmp_path, kind):
    own = tmp_path / "own.yaml"
    own.write_text(yaml.safe_dump({"distributed_type": kind} if kind else {"use_cpu": True}))
    with pytest.raises(ConfigurationError, match="starts a single process"):
        accelerate_configuration(str(own))


@on_cpu
@pytest.mark.parametrize(("name", "kind"), [("zero3", "DEEPSPEED"), ("fsdp2", "FSDP")])
def test_what_accelerate_would_run_as_plain_ddp_on_cpus_is_refused(name, kind):
    with pytest.raises(ConfigurationError, match=rf"{name} \({kind}\) shards a model over GPUs"):
        accelerate_configuration(name)


def test_a_process_that_fails_is_reported_with_its_log(tmp_path: Path):
    command = [sys.executable, "-c", "import sys; print('the reason'); sys.exit(3)"]
    log = tmp_path / "processes.log"
    with pytest.raises(TrainingError, match="exit code 3") as caught:
        run_together(command, 2, tmp_path / "metrics.jsonl", log, lambda _: None)
    assert str(log) in str(caught.value.next_step)
    assert log.read_text() == "the reason\n"
