"""Deaths of a task's watcher, guard or group, for executors of this machine."""

import os
import signal

import pytest
from executor_contract import escaped, living, shell

from sage_cli.trials.executors.executor import End, Fate


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
