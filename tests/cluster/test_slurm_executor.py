"""The Slurm executor keeps the contract on a real Slurm of two nodes, one of which is lost."""

import pytest
from executor_contract import ExecutorContract, living, shell

from sage_cli.errors import ExecutorError
from sage_cli.settings.executor import ExecutorSection
from sage_cli.trials.executors.executor import End, Fate

SECTION = ExecutorSection(name="slurm")


@pytest.mark.usefixtures("slurm_cluster")
class TestSlurm(ExecutorContract):
    source = """
from sage_cli.settings.executor import ExecutorSection
from sage_cli.trials.executors.slurm_executor import SlurmExecutor
executor = SlurmExecutor(ExecutorSection(name="slurm"), folder / "slurm", grace_s=1)
"""

    def test_tasks_of_one_submission_are_an_array_with_its_lines(self, tmp_path, slurm_cluster):
        from sage_cli.trials.executors.slurm_executor import SlurmExecutor

        section = ExecutorSection(
            name="slurm",
            workers=1,
            partition="main",
            lines={"comment": "of ours"},
            setup=("export SAID='by the setup'",),
        )
        executor = SlurmExecutor(section, tmp_path / "slurm", grace_s=1)
        tasks = [shell(tmp_path, name, "echo $SAID; sleep 2") for name in "ab"]
        jobs = executor.submit(tasks)
        array, index = jobs[0].split("_")
        assert jobs == [f"{array}_0", f"{array}_1"]
        assert index == "0"
        shown = slurm_cluster.ask("scontrol", "show", "job", array)
        assert "Comment=of ours" in shown
        assert "Partition=main" in shown
        assert "ArrayTaskThrottle=1" in shown
        assert self.ends(executor, jobs) == [End(Fate.EXITED, 0)] * 2
        assert {task.log.read_text() for task in tasks} == {"by the setup\n"}

    def test_a_job_that_somebody_else_cancels(self, tmp_path, slurm_cluster):
        pids = tmp_path / "pids"
        with self.executor(tmp_path) as executor:
            (job,) = executor.submit([shell(tmp_path, "a", f"echo $$ >> {pids}; sleep 600")])
            self.until(lambda: living(pids) != [])
            slurm_cluster.ask("scancel", job)
            (end,) = self.ends(executor, [job])
        assert end.fate == Fate.KILLED
        assert "CANCELLED" in end.reason
        assert not living(pids)

    def test_a_job_that_waits_is_ended(self, tmp_path):
        tasks = [shell(tmp_path, name, "sleep 600") for name in "abc"]  # on two nodes
        with self.executor(tmp_path) as executor:
            jobs = executor.submit(tasks)
            for job in reversed(jobs):
                executor.end(job)
            assert [end.fate for end in self.ends(executor, jobs)] == [Fate.ENDED] * 3

    def test_a_job_of_which_slurm_knows_nothing_any_more(self, tmp_path):
        with self.executor(tmp_path) as executor:
            (job,) = executor.submit([shell(tmp_path, "a", "sleep 600")])
            executor.end(job)
        pickle = tmp_path / "slurm" / f"{job}_submitted.pkl"
        pickle.rename(pickle.with_name("4711_submitted.pkl"))
        with self.executor(tmp_path) as executor:
            assert executor.adopt("4711")
            (end,) = self.ends(executor, ["4711"])
        assert end.fate == Fate.LOST
        assert "Slurm says: nothing of it any more" in end.reason

    def test_what_slurm_refuses(self, tmp_path):
        from sage_cli.trials.executors.slurm_executor import SlurmExecutor

        section = ExecutorSection(name="slurm", partition="nosuch")
        executor = SlurmExecutor(section, tmp_path / "slurm")
        with pytest.raises(ExecutorError, match=r"Slurm refuses 1 tasks: .*invalid partition"):
            executor.submit([shell(tmp_path, "a", "true")])

    def test_a_node_that_is_lost(self, tmp_path, slurm_cluster):
        """Its job is queued again by Slurm, and found by a driver that came later."""
        go = tmp_path / "go"
        work = f"until [ -e {go} ]; do sleep 0.1; done; exit 4"
        tasks = [
            shell(tmp_path, name, f"echo $$ >> {tmp_path / name}.pids; {work}") for name in "ab"
        ]

        def at_work():
            return sum(len(living(tmp_path / f"{name}.pids")) for name in "ab")

        jobs = self.killed_driver(tmp_path, tasks, lambda: at_work() == 2)
        slurm_cluster.lose("n1")
        self.until(lambda: at_work() == 1)
        with self.executor(tmp_path) as executor:
            assert all(map(executor.adopt, jobs))
            assert executor.ended() == {}
            slurm_cluster.start("n1")
            self.until(lambda: at_work() == 2)
            go.touch()
            assert self.ends(executor, jobs) == [End(Fate.EXITED, 4)] * 2


def test_no_slurm(tmp_path, monkeypatch):
    pytest.importorskip("submitit")
    from sage_cli.trials.executors.slurm_executor import SlurmExecutor

    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ExecutorError, match="Slurm can't be reached: sinfo"):
        SlurmExecutor(SECTION, tmp_path)
