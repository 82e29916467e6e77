"""The Ray executor keeps the contract on a real cluster of two nodes, one of which is lost."""

import os
import signal
import time
from types import SimpleNamespace

import pytest
from free_port import free_port

from sage_cli.errors import ExecutorError
from sage_cli.executors.contract import ExecutorContract, escaped, living, shell
from sage_cli.executors.executor import End, Fate, Resources


@pytest.mark.usefixtures("ray_cluster")
class TestRay(ExecutorContract):
    source = """
from sage_cli.executors.executor import Resources
from sage_cli.executors.on_ray import RayExecutor
executor = RayExecutor(None, Resources(), grace_s=1)
"""

    def test_a_node_that_is_lost(self, tmp_path, ray_cluster):
        """Its task ends there and is started again by Ray when there is a node."""
        go, pids = tmp_path / "go", tmp_path / "pids"
        work = f"{escaped(pids)} echo $$ >> {pids}; until [ -e {go} ]; do sleep 0.1; done"
        (node,) = ray_cluster.worker_nodes
        with self.executor(tmp_path) as executor:
            jobs = executor.submit([shell(tmp_path, name, work) for name in "ab"])
            self.until(lambda: len(living(pids)) == 4)  # a task and its child on each node
            ray_cluster.remove_node(node, allow_graceful=False)
            self.until(lambda: len(living(pids)) == 2)
            assert executor.ended() == {}
            ray_cluster.add_node(num_cpus=1)
            self.until(lambda: len(living(pids)) == 4)
            go.touch()
            assert self.ends(executor, jobs) == [End(Fate.EXITED, 0)] * 2
            self.until(lambda: not living(pids))

    def test_what_no_node_has(self):
        from sage_cli.executors.on_ray import RayExecutor

        with pytest.raises(ExecutorError, match="what a task needs: 1 CPU, 1 GPU") as refused:
            RayExecutor(None, Resources(gpus=1))
        assert "executor.gpus" in refused.value.next_step

    def test_sigterm_is_still_the_drivers(self, tmp_path):
        before = signal.signal(signal.SIGTERM, heard := (lambda *_: None))
        try:
            with self.executor(tmp_path):
                assert signal.getsignal(signal.SIGTERM) is heard
        finally:
            signal.signal(signal.SIGTERM, before)


def test_a_cluster_that_cannot_be_reached(monkeypatch):
    from sage_cli.executors.on_ray import RayExecutor

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    address = f"127.0.0.1:{free_port()}"
    for given in (address, f"ray://{address}"):
        with pytest.raises(ExecutorError, match=rf"no Ray cluster .* at {given}.*refused"):
            RayExecutor(given, Resources())
    with pytest.raises(ExecutorError, match="at nowhere"):
        RayExecutor("nowhere", Resources())


def test_a_task_that_is_cancelled_while_it_is_started_may_save(tmp_path, monkeypatch):
    """Ray interrupts a worker wherever it is, also between the command's start and its handle."""
    on_ray = pytest.importorskip("sage_cli.executors.on_ray", reason="Ray isn't installed")
    from sage_cli.executors.leashed import Leashed

    started, saved = tmp_path / "started", tmp_path / "saved"

    class Interrupted(Leashed):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            while not started.exists():
                time.sleep(0.02)
            signal.raise_signal(signal.SIGINT)

    context = SimpleNamespace(get_accelerator_ids=lambda: {"GPU": []})
    monkeypatch.setattr(on_ray.ray, "get_runtime_context", lambda: context)
    monkeypatch.setattr(on_ray, "Leashed", Interrupted)
    work = f"trap 'touch {saved}; exit 5' TERM; touch {started}; while :; do sleep 0.1; done"
    end = on_ray._run(shell(tmp_path, "a", work), dict(os.environ), tmp_path, 20.0)
    assert saved.exists()
    assert end.code == 5
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
