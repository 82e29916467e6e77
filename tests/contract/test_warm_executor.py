"""The local executor keeps the contract where commands are forked, however that process ends."""

import os
import signal
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from executor_contract import ExecutorContract, shell
from local_deaths import LocalDeaths

from sage_cli.trials.executors.executor import End, Fate, Resources
from sage_cli.trials.executors.local_executor import GONE, LocalExecutor
from sage_cli.trials.executors.process_guard import LINUX
from sage_cli.trials.executors.warm_process import WarmProcesses

pytestmark = pytest.mark.skipif(not LINUX, reason="elsewhere tasks are never forked")
SERVER = b"sage_cli.trials.executors.fork_server"
LOADING = ("-c", "from signal import *; signal(SIGINT, SIG_DFL); pause()", SERVER.decode())
"""A server that loads its libraries all the time."""


def servers() -> list[int]:
    """The fork servers that this process started, without what they forked."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if SERVER in words and parent == os.getpid():
            found.append(int(entry.name))
    return found


class TestWarm(LocalDeaths, ExecutorContract):
    source = """
from sage_cli.trials.executors.local_executor import LocalExecutor
from sage_cli.trials.executors.warm_process import WarmProcesses
program = ("-m", "sage_cli.trials.executors.fork_server")
executor = LocalExecutor(3, grace_s=1, warm=WarmProcesses(program, alone=True))
"""

    def test_commands_are_forked(self, tmp_path):
        """Watcher and guard are the server's, the command is called as it is."""
        task = shell(tmp_path, "a", "echo $PPID; sleep 0.5")
        with self.executor(tmp_path) as executor:
            (job,) = executor.submit([task])
            assert job == "warm-1"
            self.until(lambda: task.log.exists() and task.log.read_text().endswith("\n"))
            guard = Path(f"/proc/{int(task.log.read_text())}/cmdline").read_bytes()
            assert SERVER in guard.split(b"\0")
            assert len(servers()) == 1
            self.ends(executor, [job])
        assert not servers()

    def group_of(self, job, guard):
        return os.getpgid(guard)

    def test_the_server_is_killed(self, tmp_path):
        """What it forked goes on; what comes later is forked from another one."""
        go = tmp_path / "go"
        first = shell(tmp_path, "a", f"echo begun; until [ -e {go} ]; do sleep 0.1; done; exit 4")
        with self.executor(tmp_path) as executor:
            (job,) = executor.submit([first])
            self.until(lambda: first.log.exists() and first.log.read_text() == "begun\n")
            (server,) = servers()
            os.kill(server, signal.SIGKILL)
            # its command line is empty before it has ended, and a task sent to it starts cold
            os.waitid(os.P_PID, server, os.WEXITED | os.WNOWAIT)
            assert self.run(executor, [shell(tmp_path, "b", "exit 5")]) == [End(Fate.EXITED, 5)]
            assert servers() not in ([], [server])
            assert executor.ended() == {}
            go.touch()
            assert self.ends(executor, [job]) == [End(Fate.EXITED, 4)]

    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
    def test_the_server_is_killed_before_it_forks(self, tmp_path, number):
        """The command starts cold, once, and its log says why."""
        task = shell(tmp_path, "a", "echo begun")
        with closing(LocalExecutor(3, warm=WarmProcesses(LOADING, alone=True))) as executor:
            (job,) = executor.submit([task])
            self.until(servers)
            (server,) = servers()
            time.sleep(0.2)  # Python itself has started, and hears SIGINT
            assert executor.ended() == {}
            os.kill(server, number)
            assert self.ends(executor, [job]) == [End(Fate.EXITED, 0)]
        assert GONE in task.log.read_text()
        assert task.log.read_text().endswith("begun\n")

    def test_a_server_that_is_killed_each_time_is_given_up(self, tmp_path):
        tasks = [shell(tmp_path, f"{n}", "true") for n in range(5)]
        killed = 0
        with closing(LocalExecutor(3, warm=WarmProcesses(LOADING, alone=True))) as executor:
            for task in tasks:
                (job,) = executor.submit([task])
                if job.startswith("warm"):
                    self.until(servers)
                    os.kill(servers()[0], signal.SIGKILL)
                    killed += 1
                assert self.ends(executor, [job]) == [End(Fate.EXITED, 0)]
        assert killed == 3

    def test_a_server_that_ends_by_itself_is_not_replaced(self, tmp_path):
        program = ("-c", "raise SystemExit(3)")
        tasks = [shell(tmp_path, name, "true") for name in "ab"]
        with closing(LocalExecutor(3, warm=WarmProcesses(program, alone=True))) as executor:
            for task in tasks:
                assert self.run(executor, [task]) == [End(Fate.EXITED, 0)]
        first, second = (task.log.read_text() for task in tasks)
        assert GONE in first
        assert second == ""

    def test_the_first_command_of_an_environment_is_cold_unless_others_come(self, tmp_path):
        program = ("-m", SERVER.decode())
        one, two, three, four = (shell(tmp_path, name, "true") for name in "abcd")
        wide = replace(four, resources=Resources(threads=2))
        with closing(LocalExecutor(3, warm=WarmProcesses(program))) as executor:
            for commands, forked in (([one, wide], [False, False]), ([two, three], [True, True])):
                jobs = executor.submit(commands)
                assert [job.startswith("warm") for job in jobs] == forked
                self.ends(executor, jobs)
        with closing(LocalExecutor(3, warm=WarmProcesses(program))) as executor:
            jobs = executor.submit([one, two])
            assert [job.startswith("warm") for job in jobs] == [True, True]
            self.ends(executor, jobs)

    def test_a_command_with_gpus_is_a_new_program(self, tmp_path):
        warm = WarmProcesses(("-m", SERVER.decode()), alone=True)
        task = replace(shell(tmp_path, "a", "true"), resources=Resources(gpus=1))
        with closing(LocalExecutor(1, gpus=("0",), warm=warm)) as executor:
            (job,) = executor.submit([task])
            assert not servers()
            assert self.ends(executor, [job]) == [End(Fate.EXITED, 0)]

    def test_an_end_before_the_fork(self, tmp_path):
        """A command that waits for a server never starts, and nobody waits for it."""
        task = shell(tmp_path, "a", "echo begun")
        with self.executor(tmp_path) as executor:
            self.run(executor, [shell(tmp_path, "b", "true")])
            (server,) = servers()
            os.kill(server, signal.SIGSTOP)
            (job,) = executor.submit([task])
            began = time.monotonic()
            executor.end(job)
            assert time.monotonic() - began < 5  # the grace and patience are eleven
            assert self.ends(executor, [job]) == [End(Fate.ENDED, -15)]
            os.kill(server, signal.SIGCONT)
            assert self.run(executor, [shell(tmp_path, "b", "true")]) == [End(Fate.EXITED, 0)]
        assert task.log.read_text() == ""

    def test_an_environment_has_a_server_of_its_own(self, tmp_path, monkeypatch):
        with self.executor(tmp_path) as executor:
            for value in ("a", "b", "a"):
                monkeypatch.setenv("SAGE_TRIED", value)
                task = shell(tmp_path, value, "echo $SAGE_TRIED")
                self.run(executor, [task])
            assert len(servers()) == 2
        assert (tmp_path / "logs/a.log").read_text() == "a\na\n"
        assert (tmp_path / "logs/b.log").read_text() == "b\n"
