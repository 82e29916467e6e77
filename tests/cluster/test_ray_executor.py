"""The Ray executor keeps the contract on a real cluster of two nodes, one of which is lost."""

import os
import secrets
import signal
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from executor_contract import ExecutorContract, escaped, living, shell
from free_port import free_port

from sage_cli.errors import ExecutorError
from sage_cli.trials.executors.executor import End, Fate, Resources


def contents(files):
    for file in files:
        with suppress(OSError):  # of a process that has just ended
            yield file.read_bytes()


@pytest.mark.usefixtures("ray_cluster")
class TestRay(ExecutorContract):
    source = """
from sage_cli.trials.executors.executor import Resources
from sage_cli.trials.executors.ray_executor import RayExecutor
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

    def test_the_environment_is_written_nowhere(self, tmp_path, ray_cluster):
        """A driver's tokens reach a task, and neither a command line nor a file of Ray's."""
        go, token = tmp_path / "go", f"token-{secrets.token_hex(16)}"
        os.environ["SAGE_TRIED"] = token
        try:
            with self.executor(tmp_path) as executor:
                work = f'echo "$SAGE_TRIED"; until [ -e {go} ]; do sleep 0.1; done'
                task = shell(tmp_path, "a", work)
                jobs = executor.submit([task])
                self.until(lambda: task.log.is_file() and token in task.log.read_text())
                lines = list(contents(Path("/proc").glob("[0-9]*/cmdline")))
                go.touch()
                assert self.ends(executor, jobs) == [End(Fate.EXITED, 0)]
        finally:
            del os.environ["SAGE_TRIED"]
        session = Path(ray_cluster.head_node.get_session_dir_path())
        files = list(contents(file for file in session.rglob("*") if file.is_file()))
        assert files
        assert not any(token.encode() in text for text in (*lines, *files))

    def test_what_no_node_has(self):
        from sage_cli.trials.executors.ray_executor import RayExecutor

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
    from sage_cli.trials.executors.ray_executor import RayExecutor

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    address = f"127.0.0.1:{free_port()}"
    for given in (address, f"ray://{address}"):
        with pytest.raises(ExecutorError, match=rf"no Ray cluster .* at {given}.*refused"):
            RayExecutor(given, Resources())
    with pytest.raises(ExecutorError, match="at nowhere"):
        RayExecutor("nowhere", Resources())


def test_a_task_that_is_cancelled_while_it_is_started_may_save(tmp_path, monkeypatch):
    """Ray interrupts a worker wherever it is, also between the command's start and its handle."""
    on_ray = pytest.importorskip(
        "sage_cli.trials.executors.ray_executor", reason="Ray isn't installed"
    )
    from sage_cli.trials.executors.local import GuardedProcess

    started, saved = tmp_path / "started", tmp_path / "saved"
    before = signal.getsignal(signal.SIGINT)

    class Interrupted(GuardedProcess):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            while not started.exists():
                time.sleep(0.02)
            signal.raise_signal(signal.SIGINT)

    context = SimpleNamespace(get_accelerator_ids=lambda: {"GPU": []})
    monkeypatch.setattr(on_ray.ray, "get_runtime_context", lambda: context)
    monkeypatch.setattr(on_ray, "GuardedProcess", Interrupted)
    work = f"trap 'touch {saved}; exit 5' TERM; touch {started}; while :; do sleep 0.1; done"
    end = on_ray._run(shell(tmp_path, "a", work), dict(os.environ), tmp_path, 20.0)
    assert saved.exists()
    assert end.code == 5
    assert signal.getsignal(signal.SIGINT) is before
