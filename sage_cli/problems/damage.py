"""What libraries raise on a file that is damaged, as one error that names the file."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from sage_cli.errors import DataError, SageError

_OF_CONTENT = (None, errno.EINVAL, errno.EOVERFLOW)
"""Numbers of errors that a file's content causes: a place before its beginning, for example."""


@contextmanager
def explain_damage(cause: str, next_step: str) -> Iterator[None]:
    """Raise DataError for whatever the block raises of a file's content: `cause`, then why.

    Libraries keep no list of what they raise on damage: zipfile has its own class, RuntimeError and
    zlib's error, pyarrow has OSErrors without a number. What the system says of a disk or of its
    memory is not damage and passes.
    """
    try:
        yield
    except (SageError, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno not in _OF_CONTENT:
            raise
        kind = "" if isinstance(error, ValueError | OSError) else f"{type(error).__name__} "
        why = (str(error).strip().splitlines() or [""])[0]
        raise DataError(f"{cause}: {kind}{why}".rstrip(": "), next_step) from error
