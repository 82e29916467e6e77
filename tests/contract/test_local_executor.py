"""The local executor keeps the contract; and what is its own: places, GPUs, hard deaths."""

import os
import signal

import pytest
from executor_contract import ExecutorContract, escaped, living, shell

from sage_cli.errors import ExecutorError
from sage_cli.trials.executors.executor import Command, End, Fate, Resources
from sage_cli.trials.executors.local import LocalExecutor


class LocalDeaths:
    """A test of every executor that runs commands under guards here; for an ExecutorContract."""

    def group_of(self, job, guard):
        """Return the process group of a job, whose leader is its watcher."""
        raise NotImplementedError

    @pytest.mark.parametrize("whom", ["watcher", "guard", "group"])
    def test_its_processes_are_killed(self, tmp_path, whom):
        pids = tmp_path / "pids"
        task = shell(tmp_path, "a", escaped(pids) + f"echo $$ $PPID >> {pids}; sleep 600")
        with self.executor(tmp_path) as executor:
            (job,) = executor.submit([task])
            self.until(lambda: len(living(pids)) == 3)
            _escaped, _shell, guard = living(pids)
            group = self.group_of(job, guard)
            {
                "watcher": lambda: os.kill(group, signal.SIGKILL),
                "guard": lambda: os.kill(guard, signal.SIGKILL),
                "group": lambda: os.killpg(group, signal.SIGKILL),
            }[whom]()
            assert self.ends(executor, [job]) == [End(Fate.KILLED, -9)]
            assert living(pids) == ([_escaped] if whom == "group" else [])
        if whom == "group":  # with all who knew of it, the one that had left it goes on
            os.kill(_escaped, signal.SIGKILL)


class TestLocal(LocalDeaths, ExecutorContract):
    source = """
from sage_cli.trials.executors.local import LocalExecutor
executor = LocalExecutor(3, grace_s=1)
"""

    def group_of(self, job, guard):
        return int(job)

    @pytest.mark.parametrize("whom", ["watcher", "guard"])
    def test_driver_and_guard_are_killed_in_one_moment(self, tmp_path, whom):
        pids = tmp_path / "pids"
        task = shell(tmp_path, "a", escaped(pids) + f"echo $$ $PPID >> {pids}; sleep 600")
        stopped = []

        def one_is_stopped():  # so that it can't do anything about the driver's death
            if len(numbers := living(pids)) < 3:
                return False
            guard = numbers[2]
            stopped.append(os.getpgid(guard) if whom == "watcher" else guard)
            os.kill(stopped[0], signal.SIGSTOP)
            return True

        self.killed_driver(tmp_path, [task], one_is_stopped)
        os.kill(stopped[0], signal.SIGKILL)
        self.until(lambda: not living(pids))

    def test_each_task_has_gpus_of_its_own(self, tmp_path):
        executor = LocalExecutor(3, gpus=("2", "5", "7"), grace_s=1)
        show = "echo ${CUDA_VISIBLE_DEVICES-unset}"

        def seen(*counts):
            tasks = [
                Command(str(n), ("sh", "-c", show), tmp_path / f"{n}.log", Resources(gpus=count))
                for n, count in enumerate(counts)
            ]
            self.ends(executor, executor.submit(tasks))
            shown = [task.log.read_text().strip() for task in tasks]
            for task in tasks:
                task.log.unlink()
            return shown

        assert seen(1, 2) == ["2", "5,7"]
        # 2, 5, 7 came back in this or another order; a task without GPUs sees none
        first, rest = seen(0, 3)
        assert (first, sorted(rest.split(","))) == ("", ["2", "5", "7"])
        with pytest.raises(ExecutorError, match="1 asks for 2 GPUs, and 1 are free"):
            seen(2, 2)
        assert seen(3)[0]  # what the refused submission held is free again

    def test_without_gpus_the_variable_is_left_alone(self, tmp_path, monkeypatch):
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        task = shell(tmp_path, "a", "echo ${CUDA_VISIBLE_DEVICES-unset}")
        with self.executor(tmp_path) as executor:
            self.ends(executor, executor.submit([task]))
        assert task.log.read_text() == "unset\n"

    def test_more_tasks_than_places(self, tmp_path):
        with self.executor(tmp_path) as executor:
            tasks = [shell(tmp_path, name, "sleep 600") for name in "abcd"]
            with pytest.raises(ValueError, match="4 commands, 3 free places"):
                executor.submit(tasks)

    def test_a_log_that_cannot_be_written(self, tmp_path):
        pids = tmp_path / "pids"
        first = shell(tmp_path, "a", escaped(pids) + "sleep 600")
        second = Command("b", ("true",), tmp_path)  # a folder
        with self.executor(tmp_path) as executor:
            with pytest.raises(ExecutorError, match=r"b can't be started.*Is a directory"):
                executor.submit([first, second])
            assert not living(pids)
            assert executor.ended() == {}
