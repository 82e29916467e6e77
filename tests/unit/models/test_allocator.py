"""Memory that an operation frees stays with the process, unless the environment says otherwise."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sage_cli.models.scratch import save_scratch
from sage_cli.settings.sections.model import ScratchModel

PAGE_KB, BLOCK_MB, TIMES = os.sysconf("SC_PAGE_SIZE") // 1024, 100, 10
PAGES = BLOCK_MB * 1024 // PAGE_KB
"""Of one block: 25,600 of 4 KB."""

PROGRAM = f"""
import resource
import torch
{{before}}
faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range({TIMES}):  # the first blocks are new in any case
    torch.ones({BLOCK_MB}, 2**18)
begun = faults()
for _ in range({TIMES}):
    torch.ones({BLOCK_MB}, 2**18)
print(faults() - begun)
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")

KEEP = "from sage_cli.models.allocator import keep_freed_memory; assert keep_freed_memory() is "


def faults(before: str = "", **environment: str) -> int:
    """Pages that the system gave anew while a block was asked for and freed ten times."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(before=before)],
        env={**_without_malloc(), "OMP_NUM_THREADS": "1", **environment},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return int(done.stdout)


def _without_malloc() -> dict[str, str]:
    said = ("MALLOC_", "GLIBC_TUNABLES")
    return {name: value for name, value in os.environ.items() if not name.startswith(said)}


def test_a_block_that_is_freed_is_not_fetched_again() -> None:
    assert faults() >= TIMES * PAGES / 512  # even where a page has 2 MB
    assert faults(KEEP + "True") < 100


def test_what_the_environment_says_of_the_allocator_stays() -> None:
    assert faults(KEEP + "False", MALLOC_MMAP_THRESHOLD_="1048576") >= TIMES * PAGES / 512


def test_a_process_that_loads_a_model_keeps_its_memory(tmp_path: Path) -> None:
    small = ScratchModel(kind="scratch", hidden=16, layers=1, heads=2, feed_forward=32)
    save_scratch(small, ("<a>", "</a>"), [], tmp_path)
    load = f"from sage_cli.models.load import load_model; load_model({str(tmp_path)!r})"
    assert faults(load) < 100
