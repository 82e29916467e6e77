"""Signals to a training in this process: saved at the boundary, ended, gone on with.

Before that: what a machine computes in, its optimiser, and that a lack of memory is explained.
"""

import errno
import itertools
import os
import shutil
import signal
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from toy_policy import configuration, timeless, weights
from transformers import PreTrainedModel, Trainer

from sage_cli.config.load import load
from sage_cli.errors import (
    ConfigurationError,
    Interrupted,
    OutOfMemoryError,
    StoreError,
    TrainingError,
)
from sage_cli.models.loading import load_model
from sage_cli.models.tokenizer import load_tokenizer
from sage_cli.models.verification import require_verified
from sage_cli.settings.sft import SftSection
from sage_cli.store.run import Run
from sage_cli.training import base_trainer, hardware, interruption
from sage_cli.training.base_trainer import OPTIMIZERS
from sage_cli.training.checkpoints import saved_step, seal
from sage_cli.training.hardware import check_hardware, precision_arguments, require_optimizer
from sage_cli.training.interruption import wait_s
from sage_cli.training.launch import StopSignals
from sage_cli.training.rl import memory_need
from sage_cli.training.sft import Example, sft_memory_need, train_sft
from sage_cli.training.shortage import LOADING, memory_explained
from sage_cli.training.trainer import SageTrainer


def on(monkeypatch, *, gpu, bf16=False):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    # an old GPU emulates it
    supported = lambda including_emulation=True: bf16 or including_emulation  # noqa: E731
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", supported)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Some GPU")


@pytest.mark.parametrize(
    ("gpu", "has_bf16", "compute_dtype", "bf16"),
    [
        (False, False, "auto", False),
        (False, False, "bfloat16", True),
        (True, True, "auto", True),
        (True, True, "float32", False),
        (True, True, "bfloat16", True),
        (True, False, "auto", False),
        (True, False, "float32", False),
        (True, False, "bfloat16", "the Some GPU does not support"),
    ],
)
def test_products_are_bfloat16_where_asked_or_where_the_gpu_has_it(
    monkeypatch, gpu, has_bf16, compute_dtype, bf16
):
    on(monkeypatch, gpu=gpu, bf16=has_bf16)
    if isinstance(bf16, bool):
        assert precision_arguments(compute_dtype) == {"use_cpu": not gpu, "bf16": bf16}
        return
    with pytest.raises(ConfigurationError, match=bf16):
        precision_arguments(compute_dtype)


@pytest.mark.parametrize(
    ("gpu", "has_bf16", "settings", "processes", "refusal"),
    [
        (True, False, {}, 1, None),
        (True, True, {"dtype": "bfloat16"}, 1, None),
        (True, False, {"dtype": "bfloat16"}, 1, r"model\.dtype is 'bfloat16', which the Some GPU"),
        (True, False, {"compute_dtype": "bfloat16"}, 1, r"model\.compute_dtype is 'bfloat16'"),
        (True, True, {}, 2, None),
        (True, True, {}, 3, r"3 processes take a GPU each, and .* has 2"),
        (False, False, {}, 3, None),  # CPUs are shared
    ],
)
def test_what_a_gpu_lacks_is_named(monkeypatch, gpu, has_bf16, settings, processes, refusal):
    on(monkeypatch, gpu=gpu, bf16=has_bf16)
    card = SimpleNamespace(name="Some GPU", total_memory=80 * GIB)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: card)
    config = configuration(model={"kind": "pretrained", **settings})
    with pytest.raises(ConfigurationError, match=refusal) if refusal else nullcontext():
        check_hardware(config, processes, with_sft=False)


def test_without_bitsandbytes_its_extra_is_named(monkeypatch):
    monkeypatch.setattr(hardware, "find_spec", lambda _: None)
    with pytest.raises(ConfigurationError, match="needs the package bitsandbytes") as caught:
        require_optimizer("adamw_8bit", "rl.optimizer")
    assert "pip install -e '.[8bit]' in the checkout" in caught.value.next_step
    assert "rl.optimizer=adamw" in caught.value.next_step
    require_optimizer("adamw", "sft.optimizer")  # needs nothing
    assert OPTIMIZERS["adamw"] == "adamw_torch_fused"


def test_the_8_bit_optimiser_needs_a_gpu(monkeypatch):
    monkeypatch.setattr(hardware, "find_spec", lambda name: name)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigurationError, match="needs a GPU, and this machine has none"):
        require_optimizer("adamw_8bit", "rl.optimizer")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    require_optimizer("adamw_8bit", "rl.optimizer")


GIB = 2**30


def config(*sets):
    return load(["qwen2.5-math-7b"], sets=sets).config


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("Tried to allocate 2.00 GiB\nand more"),
        ValueError("No available memory for the cache blocks."),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 9 bytes"),
    ],
)
def test_the_gpu_is_named(monkeypatch, tmp_path, error):
    card = SimpleNamespace(total_memory=80 * GIB)
    for name, value in {"is_available": True, "get_device_properties": card}.items():
        monkeypatch.setattr(torch.cuda, name, lambda *_, value=value: value)
    need = memory_need(config())
    assert need.use == "8 completions of up to 2,048 tokens at once"
    with (
        pytest.raises(OutOfMemoryError, match="the GPU of 80 GiB cannot hold 8 completions") as c,
        memory_explained(need, Run(tmp_path)),
    ):
        raise error
    assert c.value.next_step == "lower rl.micro_batch or rollout.max_tokens"


@pytest.mark.parametrize(
    "take",
    [
        lambda: torch.empty(2**55),
        lambda: np.empty(2**55),
        lambda: _raise(MemoryError()),
        lambda: _raise(RuntimeError("std::bad_alloc")),
        lambda: _raise(OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))),
        lambda: _raise(RuntimeError("unable to mmap 9 bytes: Cannot allocate memory (12)")),
    ],
)
@pytest.mark.parametrize(
    ("need", "use", "settings"),
    [
        (
            memory_need(config()),
            "8 completions of up to 2,048 tokens",
            "rl.micro_batch or rollout.max_tokens",
        ),
        (
            sft_memory_need(config().sft),
            "1 demonstrations of up to 2,048 tokens",
            "sft.micro_batch or sft.max_length",
        ),
    ],
)
def test_without_a_gpu_what_to_lower_is_named(tmp_path, take, need, use, settings):
    with (
        pytest.raises(OutOfMemoryError, match=rf"this machine's memory .* cannot hold {use}") as c,
        memory_explained(need, Run(tmp_path)),
    ):
        take()
    assert c.value.next_step == f"lower {settings}"


def _raise(error):
    raise error


def test_other_errors_stay_what_they_are(tmp_path):
    with (
        pytest.raises(ValueError, match="something else"),
        memory_explained(LOADING, Run(tmp_path)),
    ):
        raise ValueError("something else")


def test_a_training_that_ran_out_of_memory_goes_on(bench, configure, monkeypatch):
    config = configure(rl={"steps": 4, "save_every": 2})
    loss = SageTrainer._compute_loss

    def short_of_memory(self, *arguments):
        if self.state.global_step == 3:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return loss(self, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(SageTrainer, "_compute_loss", short_of_memory)
        with pytest.raises(OutOfMemoryError, match="cannot hold 16 completions of up to 12") as c:
            bench.run(config)
    assert "run is saved at step 2, where the same command resumes it" in str(c.value.next_step)
    lighter = configure(rl={"steps": 4, "save_every": 2, "gradient_checkpointing": True})
    assert [record["step"] for record in bench.run(lighter)] == [3, 4]


EXAMPLES = [Example(f"{a}+{b}=", str(a + b)) for a in range(10) for b in range(10)]
SFT = SftSection(
    steps=8, batch_size=4, learning_rate=1e-2, optimizer="adamw", gradient_checkpointing=False,
    warmup_steps=1, save_every=100, seed=5,
)  # fmt: skip


def signalling(step, *numbers):
    """Hears steps, and sends this process signals at one of them."""

    def on_step(record):
        if record["step"] == step:
            for number in numbers:
                os.kill(os.getpid(), number)

    return on_step


@pytest.fixture(params=["sft", "rl"])
def train(request, bench, configure):
    """Train 8 steps in the folder `name`; no checkpoint is due before the last step."""

    def sft(name, on_step=lambda _: None):
        run = Run(bench.folder / name)
        train_sft(SFT, load_model(bench.base), load_tokenizer(bench.base), EXAMPLES, run, on_step)

    def rl(name, on_step=lambda _: None):
        bench.run(configure(rl={"steps": 8, "save_every": 100}), name, on_step=on_step)

    return sft if request.param == "sft" else rl


def records(run):
    return timeless(run.metrics.read())


def test_no_update_is_made_to_other_weights_than_were_recorded(bench):
    """The checkpoint's seal has the hash of its weights, of which a byte changes afterwards."""
    start, run = shutil.copytree(bench.base, bench.folder / "checkpoint-1"), Run(bench.folder / "a")
    seal(start)
    file, sound = start / "model.safetensors", (start / "model.safetensors").read_bytes()
    file.write_bytes(sound[:-1] + bytes([sound[-1] ^ 1]))
    model, heard = load_model(start, verify_later=True), []
    with pytest.raises(StoreError, match=r"model\.safetensors is damaged"):
        train_sft(SFT, model, load_tokenizer(start), EXAMPLES, run, heard.append)
    assert not heard
    assert not run.model.exists()
    assert all(
        torch.equal(before, after)
        for before, after in zip(
            load_model(start, verify_later=True).parameters(), model.parameters(), strict=True
        )
    )
    with pytest.raises(StoreError):
        require_verified()  # of the model that was loaded to compare with


def test_a_signal_saves_at_the_next_boundary_and_nothing_is_lost(bench, train):
    train("whole")
    # in the first, in the midst, in the last
    for step, number in ((1, signal.SIGINT), (5, signal.SIGTERM), (8, signal.SIGINT)):
        before = signal.getsignal(number)
        # the record is written at the end of its step, the signal meets the next one
        with pytest.raises(Interrupted, match="interrupted by") as caught:
            train("torn", signalling(step, number))
        reached = min(step + 1, 8)
        assert caught.value.exit_code == 128 + number
        assert caught.value.saved == f"torn is saved at step {reached}"
        assert saved_step(bench.folder / "torn/checkpoints") == reached
        assert len(Run(bench.folder / "torn").metrics.read()) == reached
        assert signal.getsignal(number) == before
    train("torn")
    whole, torn = (Run(bench.folder / name) for name in ("whole", "torn"))
    assert records(torn) == records(whole)
    assert weights(torn.model) == weights(whole.model)


def test_a_signal_before_the_first_step_is_done_saves_that_step(bench, train, monkeypatch):
    step = Trainer.training_step

    def signalled(self, *arguments, **named):
        os.kill(os.getpid(), signal.SIGTERM)
        return step(self, *arguments, **named)

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "training_step", signalled)
        with pytest.raises(Interrupted) as caught:
            train("torn")
    assert caught.value.saved == "torn is saved at step 1"


def test_a_second_signal_ends_at_once(bench, train):
    with pytest.raises(Interrupted) as caught:
        train("torn", signalling(3, signal.SIGTERM, signal.SIGINT))
    assert (caught.value.exit_code, caught.value.saved) == (130, None)
    assert saved_step(bench.folder / "torn/checkpoints") == 0


FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("trouble", ["a second signal", "a full disk"])
def test_trouble_while_saving_leaves_what_was_saved_before(bench, train, monkeypatch, trouble):
    with pytest.raises(Interrupted):
        train("torn", signalling(2, signal.SIGINT))
    save, checkpoints = Trainer._save_optimizer_and_scheduler, bench.folder / "torn/checkpoints"

    def saving(self, folder):
        if trouble == "a full disk":
            raise FULL
        os.kill(os.getpid(), signal.SIGINT)
        save(self, folder)

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "_save_optimizer_and_scheduler", saving)
        with pytest.raises((Interrupted, TrainingError)) as caught:
            train("torn", signalling(5, signal.SIGINT))
    assert saved_step(checkpoints) == 3
    if trouble == "a full disk":
        assert "is full: checkpoint-6 could not be written" in str(caught.value)
        assert "resumes from the last checkpoint" in str(caught.value.next_step)
        assert [path.name for path in checkpoints.iterdir()] == ["checkpoint-3"]
    else:
        assert (caught.value.exit_code, caught.value.saved) == (130, None)
    train("torn")
    assert len(Run(bench.folder / "torn").metrics.read()) == 8


def test_a_full_disk_at_the_end_leaves_the_last_checkpoint(bench, train, monkeypatch):
    save = PreTrainedModel.save_pretrained

    def saving(self, folder, *arguments, **named):
        if Path(folder).name == "model":
            raise FULL
        save(self, folder, *arguments, **named)

    with monkeypatch.context() as patched:
        patched.setattr(PreTrainedModel, "save_pretrained", saving)
        with pytest.raises(TrainingError, match="is full: model could not be written") as caught:
            train("torn")
    assert "resumes from the last checkpoint" in str(caught.value.next_step)
    train("torn")
    assert len(Run(bench.folder / "torn").metrics.read()) == 8


def test_the_boundary_is_a_generations_end(bench, configure, capfd):
    """A record is heard when its step is done: at 1 of 6 steps to a batch 5 are left."""
    rl = {"steps": 15, "iterations": 3, "steps_per_generation": 2, "save_every": 99}
    config = configure(rl=rl)
    bench.run(config, "whole")
    for step, boundary, left in ((1, 6, "in 5 steps"), (11, 12, "after this step")):
        with pytest.raises(Interrupted) as caught:
            bench.run(config, "torn", on_step=signalling(step, signal.SIGTERM))
        assert caught.value.saved == f"torn is saved at step {boundary}"
        assert f"SIGTERM: saving {left}" in capfd.readouterr().err
    bench.run(config, "torn")
    assert records(Run(bench.folder / "torn")) == records(Run(bench.folder / "whole"))


def test_the_last_batch_may_be_short(capfd):
    with StopSignals(patient=False, period=4) as signals:
        signals.done(8, steps=10)
        os.kill(os.getpid(), signal.SIGTERM)
    assert "saving in 2 steps" in capfd.readouterr().err


def test_a_checkpoint_inside_a_generation_batch_is_refused_by_name(bench, configure):
    """Between steps 3 and 4 of the batch of steps 3 to 4."""
    rl = {"steps": 6, "steps_per_generation": 2, "save_every": 2, "keep_checkpoints": None}
    bench.run(configure(rl=rl), "run")
    run = Run(bench.folder / "run")
    whole, checkpoints = records(run), run.checkpoints
    shutil.rmtree(checkpoints / "checkpoint-4")
    (checkpoints / "checkpoint-6").rename(checkpoints / "checkpoint-3")
    refusal = r"checkpoint-3 was saved within the generation batch of steps 3 to 4"
    with pytest.raises(StoreError, match=refusal) as caught:
        bench.run(configure(rl=rl), "run")
    assert "remove" in str(caught.value.next_step)
    assert "--fresh" in str(caught.value.next_step)
    assert len(run.metrics.read()) == 6  # nothing is forgotten yet
    shutil.rmtree(checkpoints / "checkpoint-3")  # what the message says
    bench.run(configure(rl=rl), "run")
    assert records(run) == whole


def test_the_last_step_may_lie_inside_a_batch(bench, configure):
    config = configure(rl={"steps": 3, "steps_per_generation": 2})
    bench.run(config, "run")
    before = weights(bench.folder / "run/model")
    shutil.rmtree(bench.folder / "run/model")
    assert bench.run(config, "run") == []  # its weights are taken from its last checkpoint
    assert weights(bench.folder / "run/model") == before


@pytest.fixture
def sealed(monkeypatch):
    """The names of the checkpoints that are sealed from now on."""
    names = []

    def noted(checkpoint, *also, **words):
        names.append(checkpoint.name)
        seal(checkpoint, *also, **words)

    monkeypatch.setattr(base_trainer, "seal", noted)
    return names


@pytest.mark.parametrize(
    ("save_minutes", "save_s", "due"),
    [
        # looks: begun 0, steps 1 and 2 at 1 and 2 (due: saved, at 3), steps 3 and 4 at 4 and 5, ...
        (2, 0.0, [2, 4, 6, 7]),
        # each takes a tenth of the clock's minute: 19 tenths lie between two, not the asked half.
        # Step 1 at 1 (due: saved, at 2), 2 at 3, 3 at 4 (1.9 minutes on: saved, at 5), ...
        (0.5, 6.0, [1, 3, 5, 7]),
    ],
)
def test_minutes_save_too_and_change_nothing(
    bench, configure, monkeypatch, sealed, save_minutes, save_s, due
):
    """A clock on which each look at it takes a minute: one is taken at every boundary and save."""
    rl = {"steps": 7, "save_every": 99, "keep_checkpoints": 9}
    bench.run(configure(rl=rl), "whole")
    sealed.clear()
    minutes, saves = itertools.count(), itertools.count()
    monkeypatch.setattr(interruption, "monotonic", lambda: 60.0 * next(minutes))
    monkeypatch.setattr(base_trainer, "perf_counter", lambda: save_s * next(saves))
    bench.run(configure(rl=rl | {"save_minutes": save_minutes}), "saved")
    assert sealed == [f"checkpoint-{step}" for step in due]
    # none of them is one of every 99 steps: only the last stays
    assert [path.name for path in (bench.folder / "saved/checkpoints").iterdir()] == sealed[-1:]
    whole, saved = (Run(bench.folder / name) for name in ("whole", "saved"))
    assert records(saved) == records(whole)
    assert weights(saved.model) == weights(whole.model)


def test_saving_takes_a_twentieth_of_the_time_at_most():
    assert wait_s(600, 0) == 600
    assert wait_s(600, 30) == 600  # 30 of 630
    assert wait_s(600, 84) == pytest.approx(1596)  # 84 of 84 + 1596 = 1680


def test_signals_that_were_ignored_are_heard_while_something_can_be_saved():
    """A script starts its background jobs with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with StopSignals(patient=False) as signals:
            os.kill(os.getpid(), signal.SIGINT)
            assert signals.number == signal.SIGINT
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_under_a_launcher_one_notice_may_come_several_times():
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with StopSignals(patient=True) as signals:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM):
                os.kill(os.getpid(), number)
        assert signals.number == signal.SIGTERM
        os.kill(os.getpid(), signal.SIGTERM)  # not heard either, while it ends in order
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.mark.parametrize(
    ("number", "kind"), [(errno.EACCES, PermissionError), (errno.ENOSPC, TrainingError)]
)
def test_an_error_of_the_first_save(bench, configure, monkeypatch, number, kind):
    def broken(self, folder):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Trainer, "_save_optimizer_and_scheduler", broken)
    with pytest.raises(kind) as caught:
        bench.run(configure(rl={"steps": 1}))
    if kind is TrainingError:  # the disk is full, and nothing was saved before
        assert caught.value.next_step == "free some space and run the same command again"
        assert list((bench.folder / "run/checkpoints").iterdir()) == []


def test_a_refused_run_writes_nothing(bench, configure, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigurationError):
        bench.run(configure(rollout={"backend": "vllm"}))
    assert not (bench.folder / "run").exists()
