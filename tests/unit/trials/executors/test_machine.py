import os

import pytest

from sage_cli.trials.executors import machine


@pytest.mark.parametrize(
    ("visible", "gpus"),
    [
        ("0,1", ("0", "1")),
        ("3", ("3",)),
        ("", ()),
        ("-1", ()),
        ("0,-1,2", ("0",)),  # CUDA stops at the first that is none
        ("GPU-8932f937, GPU-3a1", ("GPU-8932f937", "GPU-3a1")),
    ],
)
def test_gpus_are_those_that_are_visible(monkeypatch, visible, gpus):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert machine.gpus() == gpus


@pytest.mark.parametrize(
    ("script", "gpus"),
    [("echo 0; echo 1", ("0", "1")), ("echo no driver; exit 9", ()), (None, ())],
)
def test_gpus_are_counted_by_nvidia_smi(monkeypatch, tmp_path, script, gpus):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    if script:
        program = tmp_path / "nvidia-smi"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    assert machine.gpus() == gpus


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux's")
def test_cores_are_those_that_this_process_may_use():
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        assert machine.cores() == 1
    finally:
        os.sched_setaffinity(0, allowed)
