"""Sample sets for tests."""

import secrets
from pathlib import Path

from sage_cli.store.sample_parts import Completion, write_part
from sage_cli.store.sample_set import SampleIdentity, SampleSet

IDENTITY = SampleIdentity("m" * 16, "t" * 12, {"temperature": 1.0}, 0)


def completion(problem: str = "p", index: int = 0, text: str = "1+1=2") -> Completion:
    return Completion(problem, index, 0, text, len(text), "stop")


def put(samples: SampleSet, *rows: Completion, number: int | None = None) -> Path:
    """Store rows as one part of a writer of its own."""
    if number is None:
        number = len(list(samples.folder.glob("part-*")))
    return write_part(samples.folder, secrets.token_hex(4), number, rows, {"engine": "test"})


def damage(part: Path) -> None:
    part.write_bytes(part.read_bytes()[:-1])
