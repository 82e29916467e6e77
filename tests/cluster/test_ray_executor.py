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
        go = tmp_path / "go"
        tasks = [
            shell(
                tmp_path,
                name,
                escaped(tmp_path / f"{name}.pids")
                + f"echo $$ >> {tmp_path / name}.pids; until [ -e {go} ]; do sleep 0.1; done",
            )
            for name in "ab"
        ]
        node = ray_cluster.add_node(num_cpus=1)
        third = next(iter(ray_cluster.list_all_nodes - {ray_cluster.head_node, node}))
        with self.executor(tmp_path) as executor:
            jobs = executor.submit(tasks)
            self.until(lambda: all(len(living(tmp_path / f"{name}.pids")) == 2 for name in "ab"))
            for lost in (node, third):
                ray_cluster.remove_node(lost, allow_graceful=False)
            # of the two that ran, one at least was on a node that is gone; the head goes on
            self.until(lambda: sum(len(living(tmp_path / f"{name}.pids")) for name in "ab") == 2)
            ray_cluster.add_node(num_cpus=1)
            self.until(lambda: all(len(living(tmp_path / f"{name}.pids")) == 2 for name in "ab"))
            go.touch()
            assert self.ends(executor, jobs) == [End(Fate.EXITED, 0)] * 2
            assert not any(living(tmp_path / f"{name}.pids") for name in "ab")

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
