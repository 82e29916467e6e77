"""What one `--algo` is: a citation, settings, and how near to its source it comes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Algorithm:
    """One row: its source, the `rl` and `anchor` settings that make it up, its KL when no guide
    needs one.

    `form` says whether it is the method as published or a reduced one, `read` what it was read
    from (the authors' code, their paper, or what others write of it), `differs` what is otherwise
    than there.
    """

    source: str
    rl: dict[str, Any]
    kl_without_guide: str = "reverse"
    form: Literal["faithful", "reduced"] = "faithful"
    read: Literal["code", "paper", "secondary"] = "paper"
    differs: str = ""
    anchor: dict[str, Any] = field(default_factory=dict)
