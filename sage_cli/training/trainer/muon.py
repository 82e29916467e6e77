"""Muon: small models learn from fewer steps when matrices move by orthogonal updates.

K. Jordan and others, "Muon: An optimizer for hidden layers in neural networks", 2024,
https://kellerjordan.github.io/posts/muon. torch.optim.Muon is the same method with the iteration in
bfloat16, which a CPU without such arithmetic takes twenty times as long for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim import AdamW

MATRIX_SCALE = 10.0
"""The matrices' learning rate, in units of the one that AdamW uses for the rest."""
MOMENTUM = 0.95
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_ITERATIONS = 5


class Muon(AdamW):
    """Muon for the matrices between the layers, AdamW for embeddings, norms and biases."""

    def __init__(self, model: Any, learning_rate: float, weight_decay: float) -> None:
        matrices, others = split(model)
        groups: list[dict[str, Any]] = [
            {"params": others},
            {"params": matrices, "lr": MATRIX_SCALE * learning_rate, "orthogonal": True},
        ]
        super().__init__(groups, lr=learning_rate, weight_decay=weight_decay)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step. The matrices' gradients are used up, so that AdamW passes them over."""
        for group in self.param_groups:
            if group.get("orthogonal"):
                self._move(group)
        return super().step(closure)

    def _move(self, group: dict[str, Any]) -> None:
        alike: dict[torch.Size, list[Tensor]] = defaultdict(list)
        for matrix in group["params"]:
            if matrix.grad is not None:
                alike[matrix.shape].append(matrix)
        for (rows, columns), matrices in alike.items():
            updates = orthogonal(torch.stack([self._momentum(matrix) for matrix in matrices]))
            length = group["lr"] * max(1.0, rows / columns) ** 0.5
            for matrix, update in zip(matrices, updates, strict=True):
                matrix.mul_(1 - group["lr"] * group["weight_decay"]).sub_(update, alpha=length)
                matrix.grad = None

    def _momentum(self, matrix: Tensor) -> Tensor:
        """Nesterov's: the gradient drawn towards its running mean."""
        gradient, state = matrix.grad, self.state[matrix]
        assert gradient is not None
        if not state:
            state["step"] = torch.zeros(())  # AdamW looks for it when a state is loaded
            state["momentum"] = torch.zeros_like(matrix)
        state["step"] += 1
        state["momentum"].lerp_(gradient, 1 - MOMENTUM)
        return gradient.lerp(state["momentum"], MOMENTUM)


def split(model: Any) -> tuple[list[Tensor], list[Tensor]]:
    """The trainable matrices that aren't embeddings, and every other trainable parameter."""
    ends = (model.get_input_embeddings(), model.get_output_embeddings())
    embeddings = {id(end.weight) for end in ends if end is not None}
    matrices: list[Tensor] = []
    others: list[Tensor] = []
    for parameter in model.parameters():
        if parameter.requires_grad:
            inner = parameter.ndim == 2 and id(parameter) not in embeddings
            (matrices if inner else others).append(parameter)
    return matrices, others


def orthogonal(stack_NRC: Tensor) -> Tensor:
    """Each matrix with its singular values brought between .68 and 1.21, in five steps.

    Those below a two-hundredth of the matrix's norm stay smaller. A Newton-Schulz iteration of
    order five on N matrices of R x C at once, in their own precision.
    """
    a, b, c = _COEFFICIENTS
    upright = stack_NRC.shape[1] > stack_NRC.shape[2]
    x: Tensor = stack_NRC.mT if upright else stack_NRC
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(_ITERATIONS):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if upright else x
