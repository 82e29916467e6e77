"""Estimates of the GPU memory of training runs and evaluations, from their settings."""

from __future__ import annotations

from typing import Any

from sage_cli.config.schema import SageConfig, spread_over
from sage_cli.errors import DataError
from sage_cli.methods.loop import batch_of
from sage_cli.models.config_json import model_config
from sage_cli.models.memory import (
    Memory,
    TrainingSetup,
    kv_cache,
    sampling,
    training_memory,
    training_state,
    update,
)
from sage_cli.models.reference import teacher_of
from sage_cli.models.shape import (
    PUBLISHED,
    AnyModel,
    Shape,
    adapter_numbers,
    number_bytes,
    shape_in,
    shape_of,
)
from sage_cli.models.stages import Described
from sage_cli.problems.load import load_training_problems
from sage_cli.problems.template import PromptTemplate
from sage_cli.settings.model import PretrainedModel, ScratchModel, sampled_dtype
from sage_cli.settings.sharding import sharding_of

GIB = 2**30
USABLE = 0.95
"""Share of a GPU's memory that tensors can have: the CUDA context and gaps have the rest."""
PROMPT_TOKENS = 512
"""Taken for the longest prompt of a model whose tokenizer isn't asked."""
CHARACTERS_PER_TOKEN = 3
"""A low count for mathematics in English, so that prompts come out rather too long."""
ENGINE_SHARE = 0.9
"""The share of a GPU that vLLM takes by itself; beside a training the setting says it."""


def rl_memory(config: SageConfig, gpu_gb: int) -> Described:
    """Return the memory of a training by RL, on each of its GPUs."""
    shape, rl = shape_of(config.model), config.rl
    title = f"memory of RL on {_each(rl.processes)}{gpu_gb} GB"
    if shape is None:
        return _unknown(title, config.model)
    if teacher_bytes(config) is None:
        unknown = f"no config.json here tells the sizes of the teacher {config.anchor.teacher}"
        return Described(title, {"unknown": unknown})
    prompt, batch = prompt_tokens(config), batch_of(rl, rl.processes)
    vllm = config.rollout.vllm
    beside = config.rollout.may_use_vllm and vllm.mode == "colocate"
    memory = training_memory(
        shape,
        how_trained(config, shape),
        rows=batch.micro_batch,
        rollouts=rl.prompts_per_batch * rl.rollouts_per_prompt // rl.processes,
        prompt=prompt,
        completion=config.rollout.max_tokens,
        engine=int(vllm.memory_share * gpu_gb * 10**9) if beside else 0,
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
    return Described(title, {"micro-batch": counted, **facts(memory, gpu_gb, advice)})


def sft_memory(config: SageConfig, gpu_gb: int) -> Described:
    """Return the memory of supervised fine-tuning, whose texts are as long as `sft.max_length`."""
    shape, sft = shape_of(config.model), config.sft
    title = f"memory of SFT on {gpu_gb} GB"
    if shape is None:
        return _unknown(title, config.model)
    scratch = isinstance(config.model, ScratchModel)
    setup = TrainingSetup(
        *number_bytes(config.model),
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
    return Described(title, {"micro-batch": counted, **facts(memory, gpu_gb, advice)})


def sampling_memory(config: SageConfig, gpu_gb: int) -> Described:
    """Return the memory of sampling for an evaluation."""
    shape, section = shape_of(config.model), config.sampling
    title = f"memory of sampling on {gpu_gb} GB"
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
    weights, room = shape.parameters * width, int(share * gpus * gpu_gb * 10**9)
    texts = max(0, (room - weights) // kv_cache(shape, 1, prompt + completion, width))
    engine = f"{share:.0%} of {f'each of {gpus} GPUs' if gpus > 1 else 'the GPU'}"
    of_vllm = {
        "vLLM": f"{texts} texts of {prompt + completion} tokens at once in {engine}"
        if texts
        else f"weights and one text of {prompt + completion} tokens take more than {engine} "
        "(sampling.vllm.tensor_parallel_size spreads them)"
    }
    if section.backend == "vllm":
        return Described(title, {**of_vllm, "fits": texts > 0})
    drawn = sampling(shape, width, section.batch_rows, prompt, completion)
    memory = Memory({"weights": weights}, {"sample": drawn})
    advice = (
        "sampling.batch_rows smaller: the builtin backend halves them when memory runs out; "
        "or sampling.backend=vllm, which fills what memory there is"
    )
    rows = {"builtin": f"{section.batch_rows} rows of {prompt + completion} tokens"}
    return Described(title, {**rows, **facts(memory, gpu_gb, advice), **of_vllm})


def facts(memory: Memory, gpu_gb: int, advice: str) -> dict[str, Any]:
    """Return gibibytes by part, the peak, and whether a GPU of so many GB (1e9 bytes) holds it."""
    phase = memory.largest_phase
    parts = {**memory.resident, **memory.phases[phase]}
    usable = int(USABLE * gpu_gb * 10**9)
    fits = memory.peak <= usable
    parts_gib: dict[str, Any] = {f"{name}, GiB": gib(size) for name, size in parts.items() if size}
    parts_gib |= {
        "peak, GiB": gib(memory.peak),
        "at the peak": phase,
        "usable, GiB": gib(usable),
        "fits": fits,
    }
    return parts_gib if fits else {**parts_gib, "does not fit": f"try {advice}"}


def how_trained(config: SageConfig, shape: Shape, *, on_gpu: bool = True) -> TrainingSetup:
    """Return the setup of a configuration's RL, on GPUs or on a CPU."""
    rl, anchor = config.rl, config.anchor
    return TrainingSetup(
        *number_bytes(config.model, on_gpu=on_gpu),
        rl.optimizer,
        rl.gradient_checkpointing,
        adapter=adapter_numbers(config.model, shape),
        reference=rl.keeps_reference or (anchor.kl == "reverse" and anchor.beta > 0),
        teacher=teacher_bytes(config, on_gpu=on_gpu) or 0,
        shards=rl.processes if sharding_of(rl.accelerate) else 1,
        fused=on_gpu,
    )


def teacher_bytes(config: SageConfig, *, on_gpu: bool = True) -> int | None:
    """Return the bytes of a teacher's weights; 0 without a teacher, None if no file tells its size.

    Its weights are taken to be of two bytes where products are coarse.
    """
    if (teacher := teacher_of(config)) is None:
        return 0
    shape = PUBLISHED.get(teacher.path) or shape_in(model_config(teacher.path))
    _, width = number_bytes(config.model, on_gpu=on_gpu)
    return None if shape is None else shape.parameters * width


def prompt_tokens(config: SageConfig) -> int:
    """Return the longest prompt's tokens, by characters where the model is from scratch."""
    if not isinstance(config.model, ScratchModel):
        return PROMPT_TOKENS
    try:
        problems = load_training_problems(config.data)
    except DataError:  # rows that aren't here; training will say so
        return PROMPT_TOKENS
    template = PromptTemplate(config.prompt)
    longest = max(len(template.render(problem.question)) for problem in problems)
    per_token = 1 if config.model.tokenizer == "characters" else CHARACTERS_PER_TOKEN
    return -(-longest // per_token)


def gib(size: int) -> float:
    """Return gibibytes to three digits."""
    return float(f"{size / GIB:.3g}")


def _each(processes: int) -> str:
    return f"each of {processes} x " if processes > 1 else ""


def _unknown(title: str, model: AnyModel) -> Described:
    path = model.path if isinstance(model, PretrainedModel) else "the model"
    return Described(title, {"unknown": f"no config.json of {path} is here that tells its sizes"})
