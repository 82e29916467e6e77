"""How much longer a process takes to load a model, and to its first result, while it is hashed.

Processes that hash and processes that don't take turns, so that a busy machine slows both; their
files are in the page cache. Hashing needs a processor of its own: with one it delays the rest.

python benchmarks/loading.py [FOLDER] [--rounds 5] [--tokens 64]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import median

SIZES = {"135M": (576, 30, 1536, "float32"), "1.2B": (2048, 16, 8192, "bfloat16")}
"""Width, layers, width of the feed-forward and type of the models that are made by default."""
MEASURED = ("until it is loaded", "until a first result", "processor time")
PROCESS = """
import sys
from time import perf_counter, process_time
began = perf_counter()
from sage_cli.models.loading import load_model
from sage_cli.models.verification import require_verified
model = load_model(sys.argv[1], verify_later=True)
loaded = perf_counter()
import torch
with torch.no_grad():
    model(torch.arange(int(sys.argv[2]))[None])
require_verified()
print(loaded - began, perf_counter() - began, process_time())
"""
"""Loads as `sage passk` does: the libraries are imported while the weights are hashed."""


def make_model(name: str, folder: Path) -> Path:
    """Save a model with random weights."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    width, layers, feed_forward, dtype = SIZES[name]
    config = Qwen2Config(
        vocab_size=49152,
        hidden_size=width,
        num_hidden_layers=layers,
        intermediate_size=feed_forward,
        num_attention_heads=width // 64,
        num_key_value_heads=width // 64,
        tie_word_embeddings=True,
    )
    torch.set_default_dtype(getattr(torch, dtype))
    Qwen2ForCausalLM(config).save_pretrained(folder / name)
    return folder / name


def seconds(path: Path, tokens: int, *, hashing: bool) -> list[float]:
    """Seconds of a fresh process, by `MEASURED`; only the first process of a machine hashes."""
    rank = {"LOCAL_RANK": "0" if hashing else "1", "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-c", PROCESS, str(path), str(tokens)]
    done = subprocess.run(
        words, env={**os.environ, **rank}, capture_output=True, text=True, check=True
    )
    return list(map(float, done.stdout.split()))


def main() -> None:
    """Print the least and the median seconds of both kinds, and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=64)
    asked = parser.parse_args()
    from sage_cli.models.folders import fingerprint

    with tempfile.TemporaryDirectory() as scratch:
        paths = [asked.folder] if asked.folder else [make_model(n, Path(scratch)) for n in SIZES]
        for path in paths:
            fingerprint(path)  # records the hashes that are compared
            size = sum(file.stat().st_size for file in path.glob("*.safetensors"))
            taken = defaultdict(list)
            for _ in range(asked.rounds):
                for hashing in (False, True):
                    taken[hashing].append(seconds(path, asked.tokens, hashing=hashing))
            print(f"{path.name}, {size / 1e6:,.0f} MB, {asked.rounds} rounds")
            for number, what in enumerate(MEASURED):
                plain, hashed = ([row[number] for row in taken[kind]] for kind in (False, True))
                least, middle = (f(hashed) / f(plain) for f in (min, median))
                print(
                    f"  {what}: hashing {min(hashed):.2f} s, without {min(plain):.2f} s, "
                    f"ratio of the least {least:.2f}, of the medians {middle:.2f}"
                )


if __name__ == "__main__":
    main()
