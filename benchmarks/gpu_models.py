"""Models of random weights at a published model's sizes, and what they are asked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sage_cli.models.shape import PUBLISHED, Shape

RANK, ALPHA = 8, 16


@dataclass(frozen=True)
class Size:
    """A model's shape and the work that is given to it.

    Training steps draw `step_tokens` a completion, samplers `new_tokens`: a step of 1,024 tokens
    by `generate` takes some 40 s of dispatch alone, and the part has a dozen steps.
    """

    shape: Shape
    dtype: str
    prompts: int
    rollouts: int
    step_tokens: int
    new_tokens: int
    samples: int
    pairs: int


SIZES = {
    "qwen2.5-1.5b": Size(
        PUBLISHED["Qwen/Qwen2.5-Math-1.5B-Instruct"], "bfloat16", 8, 8, 256, 1024, 256, 3
    ),
    "smollm2-135m": Size(
        PUBLISHED["HuggingFaceTB/SmolLM2-135M-Instruct"], "float32", 8, 8, 48, 48, 2048, 3
    ),
    "toy": Size(Shape(128, 256, 2, 4, 2, 32, 200, True, True), "float32", 2, 2, 8, 8, 8, 1),
}


def question(number: int) -> str:
    """A prompt of about a hundred characters."""
    return f"{number}+{number + 1}, " * 12 + "=?"


def random_model(size: Size) -> Any:
    """The shape with random weights, made where it will be; its end of sequence hardly comes."""
    import torch

    from sage_cli.models.loading import random_qwen2

    shape = size.shape
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        model = random_qwen2(
            tokenizer(),
            seed=0,
            vocab_size=shape.vocabulary,
            hidden_size=shape.hidden,
            intermediate_size=shape.feed_forward,
            num_hidden_layers=shape.layers,
            num_attention_heads=shape.heads,
            num_key_value_heads=shape.kv_heads,
            max_position_embeddings=4096,
            tie_word_embeddings=shape.tied,
        )
    return model.to(getattr(torch, size.dtype))


def tokenizer() -> Any:
    """One token per character; a model's other tokens read as nothing."""
    from sage_cli.models.tokenizer import character_tokenizer

    return character_tokenizer(["<SOLUTION>", "</SOLUTION>"])


def saved_model(size: Size, folder: Path) -> Path:
    """The random model and its tokenizer as a folder."""
    from sage_cli.models.loading import release_memory

    random_model(size).save_pretrained(folder / "model")
    tokenizer().save_pretrained(folder / "model")
    release_memory()  # an engine takes nine tenths of the card
    return folder / "model"


def drawing_parameters(size: Size) -> Any:
    """Plain sampling of so many tokens."""
    from sage_cli.sampling.sampler import SamplingParameters

    return SamplingParameters(1.0, 1.0, 0, 0.0, size.new_tokens, None)


def sample_requests(size: Size) -> list[Any]:
    """`size.samples` in all, 32 prompts where there are as many."""
    from sage_cli.sampling.sampler import SampleRequest

    each = max(1, size.samples // 32)
    return [
        SampleRequest(f"p{number}", question(number), tuple(range(each)))
        for number in range(size.samples // each)
    ]
