"""A command of `sage` that signals itself: python signalling_writer.py NUMBER PART MOMENT WORDS.

When it writes its PART-th part of a sample set: `writing`, half of it is on disk, or `written`.
"""

import os
import sys
from pathlib import Path
from typing import Any

from sage_cli.cli.app import main
from sage_cli.store import sample_parts, sample_set


def signal_at(number: int, part: int, moment: str) -> None:
    """Have this process send itself a signal at that moment of a part."""
    write, written = sample_parts.write_part, [0]

    def signalling(folder: Path, *rest: Any) -> Path:
        written[0] += 1
        if written[0] == part and moment == "writing":
            (folder / ".part-half.parquet.0.tmp").write_bytes(b"half")
            os.kill(os.getpid(), number)
        path = write(folder, *rest)
        if written[0] == part and moment == "written":
            os.kill(os.getpid(), number)
        return path

    sample_set.write_part = signalling


if __name__ == "__main__":
    number, part, moment, *words = sys.argv[1:]
    signal_at(int(number), int(part), moment)
    sys.argv = ["sage", *words]
    main()
