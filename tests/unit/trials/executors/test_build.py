"""What a task gets of a machine, and how many run on it at once."""

import os

import pytest

from sage_cli.errors import ConfigurationError
from sage_cli.settings.executor import ExecutorSection
from sage_cli.trials.executors import local
from sage_cli.trials.executors.build import build_executor, task_resources
from sage_cli.trials.executors.executor import Resources


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
    assert local.gpus() == gpus


@pytest.mark.parametrize(
    ("script", "gpus"), [("echo 0; echo 1", ("0", "1")), ("echo no driver; exit 9", ()), (None, ())]
)
def test_gpus_are_counted_once_by_nvidia_smi(monkeypatch, tmp_path, script, gpus):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    local._installed_gpus.cache_clear()
    program = tmp_path / "nvidia-smi"
    if script:
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    assert local.gpus() == gpus
    program.unlink(missing_ok=True)
    assert local.gpus() == gpus
    local._installed_gpus.cache_clear()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux's")
def test_cores_are_those_that_this_process_may_use():
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        assert local.cores() == 1
    finally:
        os.sched_setaffinity(0, allowed)


@pytest.fixture
def machine_of(monkeypatch):
    """This machine, with as many cores and GPUs as a test says."""

    def has(cores, gpus=0):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)), raising=False)
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(gpus))))

    return has


@pytest.mark.parametrize(
    ("cores", "gpus", "settings", "processes", "places", "threads", "gpus_each"),
    [
        (2, 0, {}, 1, 2, 1, 0),  # one a core
        (32, 0, {}, 1, 8, 4, 0),  # 8 at most, 32 / 8 threads
        (6, 0, {"workers": 4}, 1, 4, 1, 0),  # 6 // 4
        (2, 0, {"workers": 4}, 1, 4, 1, 0),  # never less than one thread
        (8, 0, {}, 4, 2, 4, 0),  # 8 // 4 tasks of four processes
        (2, 0, {}, 4, 1, 2, 0),
        (2, 0, {"threads": 2}, 1, 2, 2, 0),
        (16, 8, {}, 1, 8, 2, 1),  # one a GPU
        (16, 8, {}, 4, 2, 8, 4),  # 8 // 4 tasks
        (16, 8, {"gpus": 2}, 1, 4, 4, 2),
        (16, 8, {"workers": 2}, 1, 2, 8, 1),
        (16, 8, {"gpus": 0}, 1, 8, 2, 0),
        (16, 2, {"gpus": 0, "workers": 4}, 1, 4, 4, 0),  # on cores, GPUs are no limit
    ],
)
def test_a_machine_is_divided(
    machine_of, tmp_path, cores, gpus, settings, processes, places, threads, gpus_each
):
    machine_of(cores, gpus)
    section = ExecutorSection(**settings)
    assert task_resources(section, processes) == Resources(threads, gpus_each)
    executor = build_executor(section, folder=tmp_path, processes=processes)
    assert executor.places == places


@pytest.mark.parametrize(
    ("gpus", "settings", "processes", "wanted"),
    [(2, {"workers": 3}, 1, (3, 1, 3)), (2, {}, 4, (1, 4, 4)), (0, {"gpus": 1}, 1, (1, 1, 1))],
)
def test_more_than_the_machine_has(machine_of, tmp_path, gpus, settings, processes, wanted):
    machine_of(16, gpus)
    workers, each, needed = wanted
    said = f"workers={workers} with executor.gpus={each} needs {needed} GPUs, but this machine has"
    with pytest.raises(ConfigurationError, match=f"{said} {gpus}") as refused:
        build_executor(ExecutorSection(**settings), folder=tmp_path, processes=processes)
    assert "--workers" in refused.value.next_step


def test_limits_are_passed_on(machine_of):
    machine_of(1)
    section = ExecutorSection(memory_gb=8, minutes=30)
    assert task_resources(section) == Resources(1, 0, 8, 30)


@pytest.mark.parametrize("name", ["ray", "slurm"])
def test_elsewhere_each_process_gets_a_thread_and_a_gpu(machine_of, name):
    machine_of(1)
    assert task_resources(ExecutorSection(name=name), 4) == Resources(4, 4)
    assert task_resources(ExecutorSection(name=name, gpus=0, threads=3), 4) == Resources(3, 0)
