"""Stages of a command as its dry run describes them, with their memory on a GPU and GPU hours."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from sage_cli.config.schema import SageConfig, spread_over
from sage_cli.errors import ConfigurationError, DataError
from sage_cli.methods.method import batch_of
from sage_cli.models.memory import (
    Memory,
    Shape,
    TrainingSetup,
    evaluation_memory,
    shape_of,
    texts_in_engine,
    training_memory,
    training_state,
    update,
)
from sage_cli.problems.load import load_training_problems
from sage_cli.problems.template import PromptTemplate
from sage_cli.settings.presets import sharded_by
from sage_cli.settings.sections.model import (
    PretrainedModel,
    ScratchModel,
    sampled_dtype,
    trained_dtype,
)

GIB = 2**30
Model = PretrainedModel | ScratchModel
USABLE = 0.95
"""Share of a GPU's memory that tensors can have: the CUDA context and gaps have the rest."""


@dataclass(frozen=True)
class Gpu:
    """A GPU by name: gigabytes of 10^9 bytes, and whether it multiplies in bfloat16."""

    name: str
    memory_gb: int
    bfloat16: bool = True

    @property
    def bytes(self) -> int:
        """The bytes that tensors may take."""
        return int(USABLE * self.memory_gb * 10**9)


GPUS = {
    gpu.name: gpu
    for gpu in (
        Gpu("t4-16g", 16, bfloat16=False),
        Gpu("v100-16g", 16, bfloat16=False),
        Gpu("v100-32g", 32, bfloat16=False),
        Gpu("l4-24g", 24),
        Gpu("a10-24g", 24),
        Gpu("rtx3090-24g", 24),
        Gpu("rtx4090-24g", 24),
        Gpu("rtx5090-32g", 32),
        Gpu("a40-48g", 48),
        Gpu("a6000-48g", 48),
        Gpu("l40s-48g", 48),
        Gpu("a100-40g", 40),
        Gpu("a100-80g", 80),
        Gpu("h100-80g", 80),
        Gpu("h200-141g", 141),
        Gpu("b200-180g", 180),
    )
}
"""NVIDIA's data sheets, each named by generation and memory. They round: `nvidia-smi` may show up
to 7 % more, which a plan leaves free."""


def gpu_named(name: str) -> Gpu:
    """Return the GPU called `name`; ConfigurationError with the nearest names for another."""
    gpu = GPUS.get(name.lower())
    if gpu is None:
        close = get_close_matches(name.lower(), GPUS, n=1, cutoff=0.4)
        raise ConfigurationError(
            f"no GPU '{name}' is known" + (f" (did you mean {close[0]}?)" if close else ""),
            f"known are {', '.join(GPUS)}; name one of the same memory",
        )
    return gpu


@dataclass(frozen=True)
class Described:
    """A stage in words: its title, and its facts by name."""

    title: str
    facts: dict[str, Any]


class Stage(ABC):
    """One part of a command's work. Each kind carries itself out with what it needs for that."""

    @abstractmethod
    def describe(self) -> Described:
        """Describe what the stage would do, and what of it is done; loads and writes nothing."""

    def memory(self, gpu: Gpu) -> Described | None:  # noqa: ARG002
        """Describe the GPU memory that the stage takes on `gpu`; None if it computes nothing."""
        return None


def plan_of(stages: Sequence[Stage], gpu: str | None = None) -> list[Described]:
    """Describe the stages of a command, and their memory on the GPU named `gpu`."""
    return [*(stage.describe() for stage in stages), *memory_of(stages, gpu)]


def memory_of(stages: Sequence[Stage], gpu: str | None) -> list[Described]:
    """Describe the memory that each stage takes on the GPU named `gpu`; empty without a name."""
    if gpu is None:
        return []
    chosen = gpu_named(gpu)
    described = (stage.memory(chosen) for stage in stages)
    return [memory for memory in described if memory is not None]


TOKENS_PER_S = {
    "Qwen/Qwen2.5-Math-7B": (4000, 4000),
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B": (4000, 4000),
    "Qwen/Qwen2.5-3B-Instruct": (8000, 7000),
    "Qwen/Qwen2.5-Math-1.5B-Instruct": (14000, 12000),
}
"""Tokens a second that one GPU of 80 GB samples, and that it trains on, by model: stated, to tell
hours from weeks, and not measured (`benchmarks/gpu.py` measures them)."""


def gpu_hours(model: Model, *, sampled: int, trained: int = 0) -> float:
    """Return hours of one GPU for so many tokens; 0 for a model whose throughput isn't stated."""
    rates = TOKENS_PER_S.get(getattr(model, "path", ""))
    return (sampled / rates[0] + trained / rates[1]) / 3600 if rates else 0.0


def hours_fact(model: Model, *, sampled: int, trained: int = 0) -> dict[str, str]:
    """Return the hours in words, with their source; nothing where no throughput is stated."""
    rates = TOKENS_PER_S.get(getattr(model, "path", ""))
    hours = gpu_hours(model, sampled=sampled, trained=trained)
    if not rates or not hours:
        return {}
    training = f", trained on at {rates[1]:,}" if trained else ""
    return {
        "GPU hours": f"{hours:,.1f} at most, if {rates[0]:,} tokens/s are sampled{training} "
        "(stated for 80 GB, not measured)"
    }


PROMPT_TOKENS = 512
"""Taken for the longest prompt of a model whose tokenizer isn't asked."""
CHARACTERS_PER_TOKEN = 3
"""A low count for mathematics in English, so that prompts come out rather too long."""
ENGINE_SHARE = 0.9
"""The share of a GPU that vLLM takes by itself; beside a training the setting says it."""


def rl_hours(config: SageConfig) -> dict[str, str]:
    """GPU hours of a training by RL, if every completion is as long as it may be."""
    sampled, trained = config.rl.tokens(config.rollout.max_tokens)
    return hours_fact(config.model, sampled=sampled, trained=trained)


def rl_memory(config: SageConfig, gpu: Gpu) -> Described:
    """Return the memory of a training by RL, on each of its GPUs."""
    shape, rl = shape_of(config.model), config.rl
    title = f"memory of RL on {_each(rl.processes)}{gpu.name}"
    if shape is None:
        return _unknown(title, config.model)
    prompt, batch = prompt_tokens(config), batch_of(rl, rl.processes)
    vllm = config.rollout.vllm
    beside = config.rollout.may_use_vllm and vllm.mode == "colocate"
    memory = training_memory(
        shape,
        how_trained(config, shape, gpu),
        rows=batch.micro_batch,
        rollouts=rl.prompts_per_batch * rl.rollouts_per_prompt // rl.processes,
        prompt=prompt,
        completion=config.rollout.max_tokens,
        engine=int(vllm.memory_share * gpu.memory_gb * 10**9) if beside else 0,
        sleeps=vllm.sleep,
    )
    counted = f"{batch.micro_batch} of {prompt} + {config.rollout.max_tokens} tokens"
    spread = spread_over(2 * rl.processes, rl)
    advice = (
        "rl.micro_batch smaller, rl.gradient_checkpointing=true, a smaller rollout.max_tokens, "
        + ("LoRA, " if config.model.tuning == "full" else "")
        + (f"rl.processes={spread}, " if spread else "")
        + "or rollout.vllm.mode=server"
    )
    return Described(title, {"micro-batch": counted, **facts(memory, gpu, advice)})


def sft_memory(config: SageConfig, gpu: Gpu) -> Described:
    """Return the memory of supervised fine-tuning, whose texts are as long as `sft.max_length`."""
    shape, sft = shape_of(config.model), config.sft
    title = f"memory of the warm-up on {gpu.name}"
    if shape is None:
        return _unknown(title, config.model)
    scratch = isinstance(config.model, ScratchModel)
    setup = TrainingSetup(
        *number_bytes(config.model, gpu),
        sft.optimizer,
        sft.gradient_checkpointing,
        adapter=0 if scratch else adapter_numbers(config.model, shape),
        reference=False,
    )
    rows = sft.micro_batch or sft.batch_size
    memory = Memory(
        training_state(shape, setup), {"update": update(shape, setup, rows, 0, sft.max_length)}
    )
    advice = "sft.micro_batch smaller, sft.gradient_checkpointing=true, a smaller sft.max_length"
    counted = f"{rows} of {sft.max_length} tokens"
    return Described(title, {"micro-batch": counted, **facts(memory, gpu, advice)})


def sampling_memory(config: SageConfig, gpu: Gpu) -> Described:
    """Return the memory of sampling for an evaluation."""
    shape, section = shape_of(config.model), config.sampling
    title = f"memory of sampling on {gpu.name}"
    if section.asks_servers:
        return Described(
            title, {"servers": f"{', '.join(section.servers)}; no model is loaded here"}
        )
    if shape is None:
        return _unknown(title, config.model)
    width = 4 if sampled_dtype(config.model) == "float32" else 2
    prompt, completion = PROMPT_TOKENS, section.max_tokens
    share = section.vllm.get("gpu_memory_utilization", ENGINE_SHARE)
    gpus = section.tensor_parallel
    room = int(share * gpus * gpu.memory_gb * 10**9)
    texts = texts_in_engine(shape, width, room, prompt + completion)
    engine = f"{share:.0%} of {f'each of {gpus} GPUs' if gpus > 1 else 'the GPU'}"
    of_vllm = {
        "vLLM": f"{texts} texts of {prompt + completion} tokens at once in {engine}"
        if texts
        else f"weights and one text of {prompt + completion} tokens take more than {engine} "
        "(sampling.vllm.tensor_parallel_size spreads them)"
    }
    if section.backend == "vllm":
        return Described(title, {**of_vllm, "fits": texts > 0})
    memory = evaluation_memory(
        shape, width, rows=section.batch_rows, prompt=prompt, completion=completion
    )
    advice = (
        "sampling.batch_rows smaller: the transformers backend halves them when memory runs out; "
        "or sampling.backend=vllm, which fills what memory there is"
    )
    rows = {"transformers": f"{section.batch_rows} rows of {prompt + completion} tokens"}
    return Described(title, {**rows, **facts(memory, gpu, advice), **of_vllm})


def facts(memory: Memory, gpu: Gpu, advice: str) -> dict[str, Any]:
    """Return gibibytes by part, the peak, and whether the GPU holds it."""
    phase = memory.largest_phase
    parts = {**memory.resident, **memory.phases[phase]}
    fits = memory.peak <= gpu.bytes
    parts_gib: dict[str, Any] = {f"{name}, GiB": gib(size) for name, size in parts.items() if size}
    parts_gib |= {
        "peak, GiB": gib(memory.peak),
        "at the peak": phase,
        "usable, GiB": gib(gpu.bytes),
        "fits": fits,
    }
    return parts_gib if fits else {**parts_gib, "does not fit": f"try {advice}"}


def how_trained(config: SageConfig, shape: Shape, gpu: Gpu | None) -> TrainingSetup:
    """Return the training setup of a spec; without a GPU, on a CPU."""
    rl, anchor = config.rl, config.anchor
    return TrainingSetup(
        *number_bytes(config.model, gpu),
        rl.optimizer,
        rl.gradient_checkpointing,
        adapter=adapter_numbers(config.model, shape),
        reference=rl.keeps_reference or (anchor.kl == "reverse" and anchor.beta > 0),
        shards=rl.processes if sharded_by(rl.accelerate) else 1,
        fused=gpu is not None,
        exact_head=anchor.estimator == "head",
    )


def adapter_numbers(model: Model, shape: Shape) -> int:
    """Return numbers in the model's LoRA adapter; 0 where all weights are trained."""
    if model.tuning == "full":
        return 0
    return shape.adapter_parameters(model.lora.rank, model.lora.targets)


def number_bytes(model: Model, gpu: Gpu | None) -> tuple[int, int]:
    """Return bytes of a weight and of a product; `auto` products are bfloat16 where the GPU has it.

    Stored weights are taken to be of two bytes. Raises ConfigurationError for bfloat16 on a GPU
    without it.
    """
    weights = 4 if trained_dtype(model) == "float32" else 2
    has_bf16 = gpu is not None and gpu.bfloat16
    if model.compute_dtype == "bfloat16" and gpu is not None and not has_bf16:
        raise ConfigurationError(
            f"model.compute_dtype is 'bfloat16', and a {gpu.name} doesn't have it",
            "use --set model.compute_dtype=float32, or name another GPU",
        )
    coarse = model.compute_dtype == "bfloat16" or (model.compute_dtype == "auto" and has_bf16)
    return weights, 2 if coarse else weights


def prompt_tokens(config: SageConfig) -> int:
    """The longest prompt's tokens: of a model from scratch counted by characters, else stated."""
    if not isinstance(config.model, ScratchModel):
        return PROMPT_TOKENS
    try:
        problems = load_training_problems(config.data)
    except DataError:  # rows that aren't here; training will say so
        return PROMPT_TOKENS
    template = PromptTemplate(config.prompt)
    longest = max(len(template.render(problem.question)) for problem in problems)
    each = 1 if config.model.tokenizer == "characters" else CHARACTERS_PER_TOKEN
    return -(-longest // each)


def gib(size: int) -> float:
    """Return gibibytes to three digits."""
    return float(f"{size / GIB:.3g}")


def _each(processes: int) -> str:
    return f"each of {processes} x " if processes > 1 else ""


def _unknown(title: str, model: Model) -> Described:
    path = model.path if isinstance(model, PretrainedModel) else "the model"
    return Described(title, {"unknown": f"no config.json of {path} is here that tells its sizes"})
