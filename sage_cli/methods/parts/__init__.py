"""What methods are made from and given: formulas, inputs, hooks, rewards. May import torch."""
