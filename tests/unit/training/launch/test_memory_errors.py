"""A lack of memory is one panel that says what to change, and the run goes on."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from sage_cli.config.load import load
from sage_cli.config.specs import RlSpec
from sage_cli.errors import OutOfMemoryError
from sage_cli.settings.sections.training import SftSection
from sage_cli.store.runs.run import Run
from sage_cli.training.launch.memory_errors import (
    MemoryNeed,
    advice,
    fitting_micro_batch,
    loading,
    memory_explained,
    training,
    warming_up,
)
from sage_cli.training.trainer.rl_trainer import RlTrainer

GIB = 2**30


def recipe(*sets: str) -> RlSpec:
    return RlSpec.of(load(["qwen2.5-math-7b"], sets=sets).config)


def test_the_micro_batch_that_fits_by_hand():
    # 100 bytes, 20 of weights: 8 completions needed more than 80, and 70 are to be used: 7
    assert fitting_micro_batch(8, resident=20, peak=100, total=100) == 7
    # 8 completions took 4 x 80 above the weights: 70 / 40 = 1
    assert fitting_micro_batch(8, resident=20, peak=340, total=100) == 1
    assert fitting_micro_batch(1, resident=99, peak=100, total=100) == 1


def test_three_settings_are_named_and_which_of_them_go_on():
    need = training(recipe("rl.gradient_checkpointing=false"), 1)
    assert need.what == "8 completions of up to 2,048 tokens at once"
    assert advice(need, 20, 100, 100) == (
        "change one of rl.micro_batch=7, which may fit; rl.gradient_checkpointing=true; "
        "rollout.max_tokens=1024; with rl.gradient_checkpointing this run is resumed; "
        "the others make another run"
    )


@pytest.mark.parametrize("sets", [(), ("rl.optimizer=adamw",)])
def test_advice_on_sharding_is_not_refused(sets: tuple[str, ...]):
    (spread,) = {need(recipe(*sets)).changes["rl.processes"] for need in (loading, lone)}
    processes, settings = spread.split(" with ")
    followed = recipe(*sets, f"rl.processes={processes}", *settings.split(" and "))
    assert "rl.optimizer" not in loading(followed).changes
    assert "rl.processes" not in lone(recipe("rl.algo=effective-rank", *sets)).changes


def lone(recipe: RlSpec) -> MemoryNeed:
    return training(recipe, 1)


@pytest.mark.parametrize(
    ("need", "said"),
    [
        (
            loading(recipe()),
            "rollout.vllm.memory_share=0.15; rollout.backend=transformers; model.dtype=bfloat16; "
            "with rollout.vllm.memory_share this run is resumed",
        ),
        (
            loading(recipe("rollout.backend=transformers", "model.tuning=full")),
            "model.tuning=lora; rl.processes=2 with rl.accelerate=fsdp2 and rl.optimizer=adamw",
        ),
        (
            training(recipe("rollout.backend=vllm", "rl.micro_batch=1"), 1),
            "rollout.vllm.sleep=true; rollout.max_tokens=1024; rl.processes=2 with rl.accelerate",
        ),
        (
            warming_up(SftSection(batch_size=4, max_length=100, gradient_checkpointing=False)),
            "sft.micro_batch=3, which may fit; sft.gradient_checkpointing=true; sft.max_length=50",
        ),
    ],
)
def test_what_would_ask_for_less(need: MemoryNeed, said: str):
    assert said in advice(need, 20, 100, 100)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("Tried to allocate 2.00 GiB\nand more"),
        ValueError("No available memory for the cache blocks."),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 9 bytes"),
    ],
)
def test_the_gpu_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception):
    card = SimpleNamespace(total_memory=80 * GIB)
    for name, value in {
        "is_available": True, "memory_allocated": 20 * GIB, "max_memory_allocated": 80 * GIB,
        "get_device_properties": card,
    }.items():  # fmt: skip
        monkeypatch.setattr(torch.cuda, name, lambda *_, value=value: value)
    need = training(recipe(), 1)
    with (
        pytest.raises(OutOfMemoryError, match="the GPU of 80 GiB can't hold 8 completions") as c,
        memory_explained(need, Run(tmp_path)),
    ):
        raise error
    # 8 x (72 - 20) / (80 - 20) = 6.9
    assert str(c.value.next_step).startswith("change one of rl.micro_batch=6, which may fit;")
    assert "saved" not in str(c.value.next_step)


def test_other_errors_stay_what_they_are(tmp_path: Path):
    with (
        pytest.raises(ValueError, match="something else"),
        memory_explained(loading(recipe()), Run(tmp_path)),
    ):
        raise ValueError("something else")


def test_a_training_that_ran_out_of_memory_goes_on(
    bench: Any, configure: Any, monkeypatch: pytest.MonkeyPatch
):
    config = configure(rl={"steps": 4, "save_every": 2})
    loss = RlTrainer._compute_loss

    def short_of_memory(self: Any, *arguments: Any) -> Any:
        if self.state.global_step == 3:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return loss(self, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(RlTrainer, "_compute_loss", short_of_memory)
        with pytest.raises(OutOfMemoryError, match="can't hold 16 completions of up to 12") as c:
            bench.run(config)
    assert "run is saved at step 2, where the same command resumes it" in str(c.value.next_step)
    lighter = configure(rl={"steps": 4, "save_every": 2, "gradient_checkpointing": True})
    assert [record["step"] for record in bench.run(lighter)] == [3, 4]
