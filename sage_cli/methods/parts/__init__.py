"""Parts of methods: formulas, inputs, hooks, rewards. May import torch."""
