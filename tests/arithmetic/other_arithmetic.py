"""A pytest plug-in that rounds products as another processor might: by the number of their rows.

Libraries choose a kernel by the shapes of a product and by the processor, so that the same row has
other last bits in a batch of another size: on an Intel Xeon with AMX in bfloat16, for example,
where another processor shows equal bits. A test that passes here compares no such bits.
"""

from collections.abc import Callable
from functools import cache, wraps

import pytest
import torch
from torch import Tensor

MOVED = 1 / 8
"""The share of a product's columns that is rounded up by one unit; as many are rounded down."""

PRODUCTS = (
    (torch.nn.functional, "linear"),
    (torch, "matmul"),
    (torch, "bmm"),
    (torch, "addmm"),
    (Tensor, "matmul"),
    (Tensor, "__matmul__"),
    (Tensor, "bmm"),
)
LEFT_OUT = "test_the_head_is_never_there_as_a_whole"
"""Counts what a product allocates, and with that what is allocated here."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = [item for item in items if item.name != LEFT_OUT]


def pytest_configure() -> None:
    """Replace the products before a test module can import one by name."""
    for owner, name in PRODUCTS:
        setattr(owner, name, _rounded_by_rows(getattr(owner, name)))


def _rounded_by_rows(product: Callable[..., Tensor]) -> Callable[..., Tensor]:
    @wraps(product)
    def rounded(*args: object, **kwargs: object) -> Tensor:
        exact = product(*args, **kwargs)
        if exact.dim() < 2 or not exact.is_floating_point() or not exact.numel():
            return exact
        columns = exact.shape[-1]
        with torch.no_grad():
            towards_V = _directions(exact.numel() // columns, columns).to(exact)
            moved = torch.nextafter(exact, torch.where(towards_V == 0, exact, towards_V))
            # a result of another size than its unit's neighbours keeps its value, as inf and NaN do
            unit = torch.where(moved.isfinite() & exact.isfinite(), moved - exact, 0)
        return exact + unit

    return rounded


@cache
def _directions(rows: int, columns: int) -> Tensor:
    """Where each column is moved to, (columns,): minus infinity, 0 for nowhere, or infinity."""
    drawn_V = torch.rand(columns, generator=torch.Generator().manual_seed(rows))
    up_V = torch.full((columns,), torch.inf)
    return torch.where(drawn_V < MOVED, up_V, torch.where(drawn_V > 1 - MOVED, -up_V, 0 * drawn_V))
