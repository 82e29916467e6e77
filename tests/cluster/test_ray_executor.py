"""The Ray executor keeps the contract on a real cluster of two nodes, one of which is lost."""

import signal

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
