"""The toy policy's fixtures."""

from toy_policy import base, bench, configure, tokenizer

__all__ = ["base", "bench", "configure", "tokenizer"]
