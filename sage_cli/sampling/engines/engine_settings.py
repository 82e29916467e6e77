"""Checks of vLLM's engine arguments before the model is loaded; vLLM is not imported."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from sage_cli.errors import SamplingError

LORA_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""Ranks from 8 up with kernels in vLLM 0.31 (`MaxLoRARanks`)."""


def lora_rank(rank: int) -> int:
    """Return vLLM's smallest rank that fits `rank`. Raises SamplingError above all of them."""
    for known in LORA_RANKS:
        if rank <= known:
            return known
    raise SamplingError(
        f"the adapter has rank {rank}, and vLLM takes at most {LORA_RANKS[-1]}",
        "merge it with `sage export RUN DIR` and measure DIR",
    )


def known_settings(arguments_file: Path) -> frozenset[str]:
    """Return the engine's arguments: the fields of `EngineArgs` in vLLM's source.

    The source is parsed: an import would take ten seconds. Empty if the file has no such class.
    """
    try:
        tree = ast.parse(arguments_file.read_text(encoding="utf-8"))
    except (OSError, SyntaxError):
        return frozenset()
    fields = (
        line.target.id
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name == "EngineArgs"
        for line in node.body
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
    )
    return frozenset(fields)


def refuse_unknown(settings: Mapping[str, Any], known: Collection[str]) -> None:
    """Raise SamplingError for a key of `sampling.vllm` that is not `known`.

    If none are known, vLLM itself checks them.
    """
    for name in settings if known else ():
        if name not in known:
            close = get_close_matches(name, known, n=1)
            raise SamplingError(
                f"sampling.vllm.{name} is no argument of this vLLM's engine"
                + (f" (did you mean {close[0]}?)" if close else ""),
                "`vllm serve --help` lists them, with dashes",
            )


def refuse_division(parallel: int, model: Mapping[str, Any]) -> None:
    """Raise SamplingError if `parallel` does not divide the attention heads in a config.json."""
    heads = model.get("num_attention_heads")
    if isinstance(heads, int) and heads % parallel:
        fitting = [str(n) for n in range(1, heads + 1) if heads % n == 0]
        raise SamplingError(
            f"sampling.vllm.tensor_parallel_size {parallel} doesn't divide the model's {heads} "
            "attention heads",
            f"use one of {', '.join(fitting)}; sampling.data_parallel takes any number of engines",
        )


def refuse_missing_gpus(engines: int, each: int, gpus: int) -> None:
    """Raise SamplingError if more GPUs are requested than there are."""
    if engines * each > gpus:
        settings = f"sampling.vllm.tensor_parallel_size {each}"
        if engines > 1:
            settings = f"sampling.data_parallel {engines} x {settings}"
        raise SamplingError(
            f"{settings} asks for {engines * each} GPUs, and this machine shows {gpus}",
            "ask for fewer; CUDA_VISIBLE_DEVICES says which are shown",
        )
