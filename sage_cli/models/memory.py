"""Formulas of the memory of a GPU, from a model's shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sage_cli.models.shape import Shape

TILE_TOKENS, TILE_VOCABULARY = 4096, 32768
"""TRL 1.16 projects to the vocabulary in tiles (`TOKEN_CHUNK_SIZE`, `_CHUNKED_LOGPROB_CHUNK_SIZE`):
whole logits of a batch are never there."""
OPTIMIZER_BYTES = {"adamw": 8.0, "adamw_8bit": 2.0 + 2 * 4 / 256}
"""Of state for each trained number. AdamW: two moments in float32 (Loshchilov and Hutter 2019).
8-bit: two bytes, and a float32 scale for each block of 256 of each moment (Dettmers et al. 2022;
bitsandbytes' blocks)."""
ADAPTER_BYTES = 4
"""peft keeps adapters in float32 (`autocast_adapter_dtype`)."""


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
