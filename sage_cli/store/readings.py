"""What a model says of stored samples, kept beside them so that no sample is read twice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from sage_cli.store.annotations import Annotations
from sage_cli.store.samples import SampleSet

COLUMNS = (
    ("surprisal", pa.float64()),
    ("entropy", pa.float64()),
    ("length", pa.int32()),
)


class ReadingStore(Annotations):
    """The folder `<set>/readings/<key>/` of one model, whose every determinant `reader` names.

    A row holds the means of surprisal -log pi and entropy over a completion's tokens, in nats, and
    how many tokens these are. Of a completion without tokens the means are NaN.
    """

    def __init__(self, samples: SampleSet, reader: Mapping[str, Any]) -> None:
        super().__init__(samples, reader, kind="readings", role="reader", columns=COLUMNS)
