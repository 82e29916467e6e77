"""The contract of executors as a test class to inherit, with `source` for the executor's own."""

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

from sage_cli.trials.executors.executor import Command, End, Fate, Resources

ODD_NAME = "τ=0.465, ρ='0.775'; $(echo no) %j \"50%\" & more"


def escaped(pids):
    """Shell for an orphan that leaves the process group; its number is added to a file."""
    return f"(setsid sleep 600 & echo $! >> {pids}); "


def stubborn(pids):
    """Shell that ignores SIGTERM, as does its child, whose number is added to a file."""
    return f"trap '' TERM; (sleep 600 & echo $! >> {pids}; wait); sleep 600"


class ExecutorContract:
    """Ends are reported correctly and once, and no process of an ended command runs."""

    source = ""
    """Python that makes `executor`, with two places or more and a second between SIGTERM and
    SIGKILL; `folder` is a path at hand. Run here and in processes that are killed."""
    patience_s = 180
    """How long something may take to happen."""

    def test_exit_codes(self, tmp_path):
        """A command's own end is EXITED with its code."""
        tasks = [shell(tmp_path, "a", "true"), shell(tmp_path, "b", "exit 3")]
        assert self.run_alone(tmp_path, *tasks) == [End(Fate.EXITED, 0), End(Fate.EXITED, 3)]

    def test_a_command_that_is_killed(self, tmp_path):
        """A signal from elsewhere is KILLED, with its number."""
        task = shell(tmp_path, "a", "kill -9 $$")
        assert self.run_alone(tmp_path, task) == [End(Fate.KILLED, -9)]

    def test_what_is_printed_is_appended(self, tmp_path):
        """Both streams, in their order, after what the log holds."""
        task = shell(tmp_path, "a", "echo out; echo err >&2; echo out again")
        task.log.parent.mkdir(parents=True)
        task.log.write_text("earlier\n")
        self.run_alone(tmp_path, task)
        assert task.log.read_text().splitlines() == ["earlier", "out", "err", "out again"]

    def test_a_command_that_does_not_exist(self, tmp_path):
        """It ends by itself, its log says why, and other commands run."""
        missing = Command("missing", ("no-such-command", "1"), tmp_path / "missing.log")
        ends = self.run_alone(tmp_path, missing, shell(tmp_path, "other", "true"))
        assert ends == [End(Fate.EXITED, 127), End(Fate.EXITED, 0)]
        assert "cannot run no-such-command: No such file" in missing.log.read_text()

    def test_a_time_limit(self, tmp_path):
        """A task that takes longer is TIMEOUT, and gone."""
        pids = tmp_path / "pids"
        task = shell(tmp_path, "a", stubborn(pids), minutes=0.03)
        (end,) = self.run_alone(tmp_path, task)
        assert end.fate == Fate.TIMEOUT
        assert not living(pids)

    def test_several_run_at_once(self, tmp_path):
        """Two tasks that wait for each other both end."""
        meet = "touch {0}; until [ -e {1} ]; do sleep 0.1; done"
        first, second = tmp_path / "first", tmp_path / "second"
        with self.executor(tmp_path) as executor:
            assert executor.places >= 2
            tasks = [
                shell(tmp_path, "a", meet.format(first, second)),
                shell(tmp_path, "b", meet.format(second, first)),
            ]
            assert self.ends(executor, executor.submit(tasks)) == [End(Fate.EXITED, 0)] * 2

    def test_the_place_is_the_drivers(self, tmp_path):
        """The driver's folder and variables, and the threads that were asked for."""
        os.environ["SAGE_TRIED"] = "τ $HOME"
        try:
            task = shell(tmp_path, "a", 'pwd; echo "$SAGE_TRIED"; echo $OMP_NUM_THREADS')
            self.run_alone(tmp_path, task)
        finally:
            del os.environ["SAGE_TRIED"]
        assert task.log.read_text().splitlines() == [str(Path.cwd()), "τ $HOME", "1"]

    def test_odd_names(self, tmp_path):
        """Names, arguments and logs may hold what shells and formats take for their own."""
        command = ("printf", "%s\n", ODD_NAME)
        task = Command(ODD_NAME, command, tmp_path / ODD_NAME / f"{ODD_NAME}.log")
        assert self.run_alone(tmp_path, task) == [End(Fate.EXITED, 0)]
        assert task.log.read_text() == f"{ODD_NAME}\n"

    def test_what_is_left_behind_ends_with_the_command(self, tmp_path):
        """No child outlives its task, not even in a session of its own."""
        pids = tmp_path / "pids"
        task = shell(tmp_path, "a", escaped(pids) + f"sleep 600 & echo $! >> {pids}")
        assert self.run_alone(tmp_path, task) == [End(Fate.EXITED, 0)]
        assert not living(pids)

    def test_end_asks_first(self, tmp_path):
        """SIGTERM lets a command save what it has."""
        started, saved = tmp_path / "started", tmp_path / "saved"
        wait = f"trap 'touch {saved}; exit 5' TERM; touch {started}; while :; do sleep 0.1; done"
        with self.executor(tmp_path) as executor:
            (job,) = executor.submit([shell(tmp_path, "a", wait)])
            self.until(started.exists)
            executor.end(job)
            assert saved.exists()
            assert self.ends(executor, [job])[0].fate == Fate.ENDED

    def test_end_leaves_nothing(self, tmp_path):
        """When `end` returns, commands that ignore SIGTERM and their children are gone."""
        pids = tmp_path / "pids"
        task = shell(tmp_path, "a", escaped(pids) + stubborn(pids))
        with self.executor(tmp_path) as executor:
            (job,) = executor.submit([task])
            self.until(lambda: len(living(pids)) == 2)
            executor.end(job)
            assert not living(pids)
            assert self.ends(executor, [job])[0].fate == Fate.ENDED

    def test_an_end_is_told_once(self, tmp_path):
        """And ending a job that has ended does nothing."""
        with self.executor(tmp_path) as executor:
            (job,) = executor.submit([shell(tmp_path, "a", "true")])
            assert self.ends(executor, [job]) == [End(Fate.EXITED, 0)]
            executor.end(job)
            assert executor.ended() == {}

    def test_no_job_is_invented(self, tmp_path):
        """An unknown job is not adopted."""
        with self.executor(tmp_path) as executor:
            assert not executor.adopt("4711")
            assert executor.ended() == {}

    def test_close_ends_what_does_not_outlive_the_driver(self, tmp_path):
        """All of it at once."""
        with self.executor(tmp_path) as executor:
            pids = tmp_path / "pids"
            tasks = [shell(tmp_path, name, stubborn(pids)) for name in "ab"]
            jobs = executor.submit(tasks)
            self.until(lambda: len(living(pids)) == 2)
            executor.close()
            assert len(living(pids)) == (2 if executor.outlives else 0)
            for job in jobs:
                executor.end(job)
            assert not living(pids)

    def test_a_driver_that_is_killed(self, tmp_path):
        """SIGKILL of the driver ends its jobs, or another one finds them where they outlive it."""
        pids, go = tmp_path / "pids", tmp_path / "go"
        wait = escaped(pids) + f"echo $$ >> {pids}; until [ -e {go} ]; do sleep 0.1; done"
        task = shell(tmp_path, "a", f"{wait}; exit 7")
        (job,) = self.killed_driver(tmp_path, [task], lambda: len(living(pids)) == 2)
        with self.executor(tmp_path) as executor:
            assert executor.adopt(job) == executor.outlives
            if executor.outlives:
                assert len(living(pids)) == 2
                go.touch()
                assert self.ends(executor, [job]) == [End(Fate.EXITED, 7)]
            self.until(lambda: not living(pids))

    def killed_driver(self, folder, tasks, when):
        """The jobs of a driver that submitted `tasks` and was killed by SIGKILL as of `when`."""
        program = (
            "import sys, time; from pathlib import Path, PosixPath; "
            "from sage_cli.trials.executors.executor import Command, Resources\n"
            f"folder = Path({str(folder)!r})\n{self.source}\n"
            f"print('jobs', *executor.submit({list(tasks)!r}), flush=True)\ntime.sleep(600)"
        )
        driver = subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
        )
        with driver:
            said = next(line for line in driver.stdout if line.startswith("jobs "))
            self.until(when)
            driver.kill()
        return said.split()[1:]

    @contextmanager
    def executor(self, folder):
        """The executor under test, closed at the end."""
        names = {"folder": folder}
        exec(self.source, names)
        executor = names["executor"]
        try:
            yield executor
        finally:
            executor.close()

    def run_alone(self, folder, *tasks):
        """The ends of tasks that an executor of their own runs, in their order."""
        with self.executor(folder) as executor:
            return self.ends(executor, executor.submit(tasks))

    def ends(self, executor, jobs):
        """The jobs' ends, waited for, in their order; none is told twice."""
        found = {}

        def told():
            ends = executor.ended()
            assert not set(ends) & set(found), "an end was told twice"
            found.update(ends)
            return set(jobs) <= set(found)

        self.until(told)
        return [found[job] for job in jobs]

    def until(self, happened):
        """Wait for it to happen, `patience_s` at most."""
        deadline = time.monotonic() + self.patience_s
        while not happened():
            assert time.monotonic() < deadline, f"not within {self.patience_s} s"
            time.sleep(0.05)


def shell(folder, name, script, minutes=None):
    """A task that is a line for a shell; its log is below `folder`."""
    log = folder / "logs" / f"{name}.log"
    return Command(name, ("sh", "-c", script), log, Resources(minutes=minutes))


def living(pids):
    """The processes numbered in a file that run, zombies aside."""
    found = []
    for number in pids.read_text().split() if pids.exists() else ():
        asked = subprocess.run(["ps", "-o", "stat=", "-p", number], capture_output=True, text=True)
        if asked.stdout.strip() and "Z" not in asked.stdout:
            found.append(int(number))
    return found
