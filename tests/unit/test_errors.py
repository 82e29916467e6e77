"""One recogniser of memory that ran out, for trainings, samplers, plug-ins and logs of tasks."""

import pytest

from sage_cli.errors import is_out_of_memory


class OutOfMemoryError(RuntimeError):
    """torch's has this name; its message need not say it."""


@pytest.mark.parametrize(
    "told",
    [
        MemoryError(),
        OutOfMemoryError("no room"),
        RuntimeError("std::bad_alloc"),
        RuntimeError(
            "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried 9 bytes"
        ),
        OSError(12, "Cannot allocate memory"),
        ValueError("No available memory for the cache blocks."),
        RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        "Traceback (most recent call last):\n  ...\nMemoryError",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0",
        "ray.exceptions.OutOfMemoryError: Task was killed",
        "ValueError: To serve at least one request, (4.0 GiB KV cache is needed, ...)",
    ],
)
def test_memory_that_ran_out_is_known_by_kind_or_words(told):
    assert is_out_of_memory(told)


@pytest.mark.parametrize(
    "told",
    [
        ValueError("rl.memory is unknown"),
        RuntimeError("shapes do not match"),
        OSError(28, "full"),
        "the memory of the run is at /runs/memory",
        "",
    ],
)
def test_other_errors_are_not(told):
    assert not is_out_of_memory(told)
