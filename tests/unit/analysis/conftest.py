"""A toy policy, for analyses of what its training kept."""

from toy_policy import base, bench, configure, tokenizer

__all__ = ["base", "bench", "configure", "tokenizer"]
