"""Verdicts kept beside the samples they are about, so that nothing is graded twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sage_cli.store.annotations import Annotations
from sage_cli.store.columns import as_numpy
from sage_cli.store.samples import SampleSet
from sage_cli.store.tally import Tally, tally_of

COLUMNS = (
    ("status", pa.dictionary(pa.int32(), pa.string())),
    ("extracted", pa.large_string()),
)


class VerdictStore(Annotations):
    """The folder `<set>/verdicts/<key>/` of one grader, whose every determinant `grader` names.

    A row is a status and what was extracted.
    """

    def __init__(self, samples: SampleSet, grader: Mapping[str, Any]) -> None:
        super().__init__(samples, grader, kind="verdicts", role="grader", columns=COLUMNS)

    @property
    def seed(self) -> int:
        """The evaluation seed of the samples."""
        return self._samples.identity.seed

    def tally(self, problem_ids: Sequence[str], n: int) -> Tally:
        """Count the verdicts on samples below `n` of these problems, without reading a text."""
        inventory = self._samples.whole_inventory()
        verdict_S = self._rows_of(inventory)
        status = self._column("status")
        statuses = status.dictionary.to_pylist()
        status_V = np.append(as_numpy(status.indices), -1)  # what -1 stands for comes last
        status_S = status_V[verdict_S]
        return tally_of(inventory, status_S, statuses, problem_ids, n)
