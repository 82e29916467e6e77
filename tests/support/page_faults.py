"""New pages for a block before memory is kept and after, and whether: page_faults.py [MODEL]."""

import resource
import sys

import numpy

from sage_cli.models.loading import keep_freed_memory, load_model

BLOCK_MB, TIMES = 50, 4
"""glibc maps each block of more than 32 MB by itself."""


def faults():
    for _ in range(2):  # the first blocks are new in any case
        numpy.ones((BLOCK_MB, 2**17))
    begun = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(TIMES):
        numpy.ones((BLOCK_MB, 2**17))
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - begun


if __name__ == "__main__":
    before = faults()
    load_model(sys.argv[1]) if sys.argv[1:] else keep_freed_memory()
    sys.stdout.write(f"{before} {faults()} {keep_freed_memory()}\n")
