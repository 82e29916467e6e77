"""How much longer a model takes to load, and until its first result, while its weights are hashed.

Both kinds of loading take turns in one process, whose files are in the page cache, so that a busy
machine slows both. Hashing needs a processor of its own: with one it delays what it runs beside.

python benchmarks/loading.py [FOLDER] [--rounds 7] [--tokens 64]
"""

from __future__ import annotations

import argparse
import gc
import os
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from sage_cli.models.folders import fingerprint
from sage_cli.models.loading import load_model
from sage_cli.models.verification import require_verified

SIZES = {"135M": (576, 30, 1536, torch.float32), "1.2B": (2048, 16, 8192, torch.bfloat16)}
"""Width, layers, width of the feed-forward and type of the models that are made by default."""


def make_model(name: str, folder: Path) -> Path:
    """Save a model with random weights, and have its hashes recorded."""
    width, layers, feed_forward, dtype = SIZES[name]
    config = Qwen2Config(
        vocab_size=49152, hidden_size=width, num_hidden_layers=layers,
        intermediate_size=feed_forward, num_attention_heads=width // 64,
        num_key_value_heads=width // 64, tie_word_embeddings=True,
    )  # fmt: skip
    torch.set_default_dtype(dtype)
    Qwen2ForCausalLM(config).save_pretrained(folder / name)
    torch.set_default_dtype(torch.float32)
    return folder / name


def seconds(path: Path, tokens: int) -> tuple[float, float, float]:
    """Seconds of loading, until a pass over so many tokens is done and verified, and of CPU."""
    gc.collect()
    began, before = perf_counter(), process_time()
    model = load_model(path, verify_later=True)
    loaded = perf_counter()
    with torch.no_grad():
        model(torch.arange(tokens)[None])
    require_verified()
    return loaded - began, perf_counter() - began, process_time() - before


def main() -> None:
    """Print the least and the median seconds of both kinds, and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--tokens", type=int, default=64)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        paths = [asked.folder] if asked.folder else [make_model(n, Path(scratch)) for n in SIZES]
        for path in paths:
            fingerprint(path)
            size = sum(file.stat().st_size for file in path.glob("*.safetensors"))
            taken = defaultdict(list)
            for _ in range(asked.rounds):
                for rank, kind in (("1", "without"), ("0", "hashing")):  # the first process hashes
                    os.environ["LOCAL_RANK"] = rank
                    taken[kind].append(seconds(path, asked.tokens))
            print(f"{path.name}, {size / 1e6:,.0f} MB, {asked.rounds} rounds")
            for number, what in enumerate(("loading", "until a first result", "processor time")):
                hashing_s, without_s = (
                    [one[number] for one in taken[kind]] for kind in ("hashing", "without")
                )
                least, middle = (f(hashing_s) / f(without_s) for f in (min, median))
                print(
                    f"  {what}: hashing {min(hashing_s):.3f} s, without {min(without_s):.3f} s, "
                    f"ratio of the least {least:.2f}, of the medians {middle:.2f}"
                )


if __name__ == "__main__":
    main()
