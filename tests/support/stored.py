"""Sample sets for tests."""

import secrets

from sage_cli.store.completion import Completion
from sage_cli.store.sample_parts import write_part
from sage_cli.store.sample_set import SampleIdentity

IDENTITY = SampleIdentity("m" * 16, "t" * 12, {"temperature": 1.0}, 0)


def completion(problem="p", index=0, text="1+1=2"):
    return Completion(problem, index, 0, text, len(text), "stop")


def put(samples, *rows, number=None):
    """Store rows as one part of a writer of its own."""
    if number is None:
        number = len(list(samples.folder.glob("part-*")))
    return write_part(samples.folder, secrets.token_hex(4), number, rows, {"engine": "test"})


def damage(part):
    part.write_bytes(part.read_bytes()[:-1])
