"""GPU memory of trainings and evaluations, estimated from the sizes in a model's config.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sage_cli.config.schema import SageConfig, spread_over
from sage_cli.errors import DataError
from sage_cli.methods.loop import batch_of
from sage_cli.models.config_json import model_config
from sage_cli.models.reference import teacher_of
from sage_cli.models.stages import Described
from sage_cli.problems.load import load_training_problems
from sage_cli.problems.template import PromptTemplate
from sage_cli.settings.model import PretrainedModel, ScratchModel, sampled_dtype, trained_dtype
from sage_cli.settings.sharding import sharding_of

_Model = PretrainedModel | ScratchModel
CHARACTERS, TAGS_AND_ENDS = 95, 6
"""Printable characters; four tags, end and padding (`sage_cli.models.tokenizer`)."""
TILE_TOKENS, TILE_VOCABULARY = 4096, 32768
"""TRL 1.16 projects to the vocabulary in tiles (`TOKEN_CHUNK_SIZE`, `_CHUNKED_LOGPROB_CHUNK_SIZE`):
whole logits of a batch are never there."""
OPTIMIZER_BYTES = {"adamw": 8.0, "adamw_8bit": 2.0 + 2 * 4 / 256}
"""Of state for each trained number. AdamW: two moments in float32 (Loshchilov and Hutter 2019).
8-bit: two bytes, and a float32 scale for each block of 256 of each moment (Dettmers et al. 2022;
bitsandbytes' blocks)."""
ADAPTER_BYTES = 4
"""peft keeps adapters in float32 (`autocast_adapter_dtype`)."""
GIB = 2**30
USABLE = 0.95
"""Share of a GPU's memory that tensors can have: the CUDA context and gaps have the rest."""
PROMPT_TOKENS = 512
"""Taken for the longest prompt of a model whose tokenizer isn't asked."""
CHARACTERS_PER_TOKEN = 3
"""A low count for mathematics in English, so that prompts come out rather too long."""
ENGINE_SHARE = 0.9
"""The share of a GPU that vLLM takes by itself; beside a training the setting says it."""


@dataclass(frozen=True)
class Shape:
    """A decoder of the Llama and Qwen kind: gated MLP, RMSNorm, grouped key-value heads."""

    hidden: int
    feed_forward: int
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    vocabulary: int
    tied: bool
    qkv_bias: bool

    @property
    def projections(self) -> dict[str, tuple[int, int]]:
        """Inputs and outputs of a layer's matrices by name."""
        queries, keys = self.heads * self.head_size, self.kv_heads * self.head_size
        return {
            "q_proj": (self.hidden, queries),
            "k_proj": (self.hidden, keys),
            "v_proj": (self.hidden, keys),
            "o_proj": (queries, self.hidden),
            "gate_proj": (self.hidden, self.feed_forward),
            "up_proj": (self.hidden, self.feed_forward),
            "down_proj": (self.feed_forward, self.hidden),
        }

    @property
    def parameters(self) -> int:
        """Weights of embedding, layers (two norms each) and head."""
        matrices = sum(inner * outer for inner, outer in self.projections.values())
        biases = (self.heads + 2 * self.kv_heads) * self.head_size if self.qkv_bias else 0
        embeddings = (1 if self.tied else 2) * self.vocabulary * self.hidden
        return embeddings + self.layers * (matrices + biases + 2 * self.hidden) + self.hidden

    def adapter_parameters(self, rank: int, targets: Sequence[str]) -> int:
        """Return the size of LoRA's two matrices a target (Hu et al. 2021, section 4.1)."""
        sides = [sum(self.projections[name]) for name in targets if name in self.projections]
        return self.layers * rank * sum(sides)


_QWEN_7B = Shape(3584, 18944, 28, 28, 4, 128, 152064, tied=False, qkv_bias=True)
PUBLISHED = {
    "Qwen/Qwen2.5-Math-7B": _QWEN_7B,
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B": _QWEN_7B,
    "Qwen/Qwen2.5-3B-Instruct": Shape(2048, 11008, 36, 16, 2, 128, 151936, True, True),
    "Qwen/Qwen2.5-Math-1.5B-Instruct": Shape(1536, 8960, 28, 12, 2, 128, 151936, True, True),
    "Qwen/Qwen3-1.7B-Base": Shape(2048, 6144, 28, 16, 8, 128, 151936, True, False),
    "Qwen/Qwen3-4B-Base": Shape(2560, 9728, 36, 32, 8, 128, 151936, True, False),
    "meta-llama/Llama-3.2-3B-Instruct": Shape(3072, 8192, 28, 24, 8, 128, 128256, True, False),
    "allenai/OLMo-2-0425-1B": Shape(2048, 8192, 16, 16, 16, 128, 100352, False, False),
    "HuggingFaceTB/SmolLM2-135M-Instruct": Shape(576, 1536, 30, 9, 3, 64, 49152, True, False),
}
"""The shipped presets' models, as their config.json on the Hub has them: for where neither the
Hub nor its cache is at hand."""


def shape_of(section: _Model) -> Shape | None:
    """Return the shape of the configured model; None where nothing here tells it."""
    if isinstance(section, ScratchModel):
        characters = section.tokenizer == "characters"
        return Shape(
            section.hidden,
            section.feed_forward,
            section.layers,
            section.heads,
            section.heads,
            section.hidden // section.heads,
            (CHARACTERS if characters else section.vocabulary) + TAGS_AND_ENDS,
            section.tie_embeddings,
            True,
        )
    if section.path in PUBLISHED:
        return PUBLISHED[section.path]
    return shape_in(model_config(section.path, section.revision))


def shape_in(config: Mapping[str, Any]) -> Shape | None:
    """Return the shape that the content of a config.json tells; None for another kind of model."""
    try:
        heads, hidden = int(config["num_attention_heads"]), int(config["hidden_size"])
        return Shape(
            hidden,
            int(config["intermediate_size"]),
            int(config["num_hidden_layers"]),
            heads,
            int(config.get("num_key_value_heads") or heads),
            int(config.get("head_dim") or hidden // heads),
            int(config["vocab_size"]),
            bool(config.get("tie_word_embeddings", False)),
            bool(config.get("attention_bias", config.get("model_type") == "qwen2")),
        )
    except (KeyError, TypeError, ValueError):
        return None


@dataclass(frozen=True)
class TrainingSetup:
    """A training setup: `adapter` counts LoRA's numbers, 0 if all weights are trained.

    A number of the stored weights has `weight_bytes`, one of a matrix product `product_bytes`.
    A `teacher`, in bytes, is in the place of a `reference` that is a state of the policy.
    `shards` is over how many GPUs weights, gradients and optimiser are spread; `fused` says that
    kernels work on a tile of logits in place, as Triton's do on a GPU.
    """

    weight_bytes: int
    product_bytes: int
    optimizer: str
    checkpointing: bool
    adapter: int = 0
    reference: bool = True
    teacher: int = 0
    shards: int = 1
    fused: bool = True


@dataclass(frozen=True)
class Memory:
    """Bytes by part: what is resident, and what each phase adds."""

    resident: Mapping[str, int]
    phases: Mapping[str, Mapping[str, int]]

    @property
    def largest_phase(self) -> str:
        """The phase in which the most is in use."""
        return max(self.phases, key=lambda name: sum(self.phases[name].values()))

    @property
    def peak(self) -> int:
        """The most that is in use at once."""
        return sum(self.resident.values()) + sum(self.phases[self.largest_phase].values())


def training_state(shape: Shape, setup: TrainingSetup) -> dict[str, int]:
    """Return what a training keeps between steps: weights, reference and optimiser.

    The reference of a LoRA training is a second adapter, that of full tuning a second model, and a
    teacher is a model of its own. With ZeRO-3 or FSDP2 each GPU holds its share (Rajbhandari et al.
    2020, section 5).
    """
    weights = shape.parameters * setup.weight_bytes
    trained = setup.adapter or shape.parameters
    adapter = setup.adapter * ADAPTER_BYTES
    reference = setup.teacher or (adapter or weights) * setup.reference
    return {
        "weights": (weights + adapter) // setup.shards,
        "reference": reference // setup.shards,
        "optimizer": int(trained * OPTIMIZER_BYTES[setup.optimizer]) // setup.shards,
    }


def update(
    shape: Shape, setup: TrainingSetup, rows: int, prompt: int, completion: int
) -> dict[str, int]:
    """Return what the forward and backward pass take of a micro-batch of `rows` texts.

    Gradients have the type of the trained weights. Where weights are wider than products, autocast
    keeps a copy of each in the products' type until the forward pass ends.
    """
    tokens = rows * (prompt + completion)
    # autocast casts a weight at each use and keeps the copy for the backward pass, if the weight
    # needs a gradient; frozen weights are cast and dropped
    wide = setup.weight_bytes > setup.product_bytes and not setup.adapter
    gradients = setup.adapter * ADAPTER_BYTES or shape.parameters * setup.weight_bytes
    return {
        "gradients": gradients // setup.shards,
        "cast weights": shape.parameters * setup.product_bytes * wide // setup.shards,
        "activations": activations(shape, setup, tokens),
        "logits": head(shape, setup, tokens),
    }


def activations(shape: Shape, setup: TrainingSetup, tokens: int) -> int:
    """Return bytes of activations that a backward pass needs.

    Without checkpointing every layer's tensors; with it each layer's input, and the tensors of the
    one that is recomputed (Chen et al. 2016). Beside them, the gradients of one layer: of gate,
    up and their product (3 f), of the residual stream and a norm (2 h).
    """
    layer = tokens * layer_bytes(shape, setup)
    gradients = tokens * (3 * shape.feed_forward + 2 * shape.hidden) * setup.product_bytes
    if not setup.checkpointing:
        return shape.layers * layer + gradients
    stream = setup.product_bytes if setup.adapter else setup.weight_bytes
    return shape.layers * tokens * shape.hidden * stream + layer + gradients


def layer_bytes(shape: Shape, setup: TrainingSetup) -> int:
    """Return bytes that one layer keeps of one token for its backward pass.

    Counted from Transformers' Qwen2 layer with scaled-dot-product attention, as Korthikanti et
    al. (2022, section 4.1) count GPT's. In the products' type: the outputs of both norms (2 h),
    queries and attention's output (2 a d), keys and values (2 k d), and of the MLP gate, its
    SiLU, up and their product (4 f). In float32: each norm's input, and where norms are trained
    its normalised input too.
    """
    queries, keys = shape.heads * shape.head_size, shape.kv_heads * shape.head_size
    products = 2 * shape.hidden + 2 * queries + 2 * keys + 4 * shape.feed_forward
    norms = 2 * shape.hidden * (1 if setup.adapter else 2)
    return products * setup.product_bytes + norms * 4


def head(shape: Shape, setup: TrainingSetup, tokens: int) -> int:
    """Return bytes of TRL's fused head: a tile of float32 logits, last states, their gradient.

    Torch without Triton takes three tiles: logits, their exponentials, gradients. Where the head
    is trained its gradient is summed in float32.
    """
    tile = min(tokens, TILE_TOKENS) * min(shape.vocabulary, TILE_VOCABULARY) * 4
    tiles = tile * (1 if setup.fused else 3)
    states = tokens * shape.hidden * (setup.product_bytes + 4)
    gradient = 0 if setup.adapter else shape.vocabulary * shape.hidden * 4
    return tiles + states + gradient


def kv_cache(shape: Shape, rows: int, tokens: int, width: int) -> int:
    """Return bytes of keys and values: 2 Y k d numbers a token (Pope et al. 2022, section 3.3)."""
    return rows * tokens * 2 * shape.layers * shape.kv_heads * shape.head_size * width


def sampling(shape: Shape, width: int, rows: int, prompt: int, completion: int) -> dict[str, int]:
    """Return what a batch of `rows` texts takes while its last token is sampled.

    Logits in the products' type and in float32, their exponentials, and the cumulative sums of
    these in float64, a bound for vocabularies that are summed by blocks; one layer's keys and
    values are there twice while a token is appended.
    """
    tokens = prompt + completion
    cache = kv_cache(shape, rows, tokens, width)
    return {
        "KV cache": cache + cache // shape.layers,
        "logits": rows * shape.vocabulary * (width + 4 + 4 + 8),
    }


def training_memory(
    shape: Shape,
    setup: TrainingSetup,
    *,
    rows: int,
    rollouts: int,
    prompt: int,
    completion: int,
    engine: int = 0,
    sleeps: bool = False,
) -> Memory:
    """Return the memory of RL: `rollouts` sampled at once, `rows` in a micro-batch.

    `engine` is what another engine on the same GPU (vLLM) has for itself; 0: the model
    samples. One that `sleeps` has it while it samples alone.
    """
    of_engine = {"vLLM": engine} if engine else {}
    resident = training_state(shape, setup) | ({} if sleeps else of_engine)
    phases = {"update": update(shape, setup, rows, prompt, completion)}
    if engine and sleeps:
        phases["rollout"] = of_engine
    if not engine:
        # attention and logits are float32 inside the trainer's autocast
        phases["rollout"] = sampling(shape, 4, rollouts, prompt, completion)
    return Memory(resident, phases)


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


def adapter_numbers(model: _Model, shape: Shape) -> int:
    """Return numbers in the model's LoRA adapter; 0 where all weights are trained."""
    if model.tuning == "full":
        return 0
    return shape.adapter_parameters(model.lora.rank, model.lora.targets)


def number_bytes(model: _Model, *, on_gpu: bool = True) -> tuple[int, int]:
    """Return bytes of a weight and of a product, which is bfloat16 by itself on a GPU.

    Stored weights are taken to be of two bytes.
    """
    weights = 4 if trained_dtype(model) == "float32" else 2
    coarse = model.compute_dtype == "bfloat16" or (model.compute_dtype == "auto" and on_gpu)
    return weights, 2 if coarse else weights


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


def _unknown(title: str, model: _Model) -> Described:
    path = model.path if isinstance(model, PretrainedModel) else "the model"
    return Described(title, {"unknown": f"no config.json of {path} is here that tells its sizes"})
