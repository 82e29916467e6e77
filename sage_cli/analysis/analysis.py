"""The contract of an analysis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from sage_cli.analysis.material import Material
from sage_cli.reports.document import Document

Option = Literal["delta", "patterns"]


@dataclass(frozen=True)
class Analysis:
    """A question to stored results, answered by the pure function `of`.

    `says` is one sentence for people, `data` the type of the document's data. It needs samples
    with verdicts, or with `records` what the runs' trainings wrote; with `base` those of the base
    too, and two policies at least. `reader` names a model that has to read first: the base or the
    policy itself reads the completions, or the policy itself the `announcements` of modes; this
    loads a model, and what it found is kept. `itself, where kept` takes what the policy has read of
    its own completions, and loads nothing. `options` are those of the command that it looks at.
    """

    name: str
    says: str
    of: Callable[[Material], Document]
    data: type
    records: bool = False
    base: bool = False
    reader: Literal["base", "itself", "itself, where kept", "announcements"] | None = None
    options: frozenset[Option] = frozenset()
