"""Writers of a sample set are killed, alone or among others: nothing is lost or drawn twice.

A writer is this file as a program, which may signal itself: `NUMBER PART MOMENT WORDS`. It does
when it writes its PART-th part of a sample set: `writing`, half of it is on disk, or `written`;
with NUMBER 0 never. WORDS are a command line of `sage`, or `fill FOLDER PAUSE_S`: it fills the set
below FOLDER, with so many seconds a sample, and says what it drew as JSON. Chunks are small then,
so that writers meet often.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from random_model import random_model
from scripted import Scripted

from sage_cli.cli.app import main
from sage_cli.evaluation.policy_sampler import fill
from sage_cli.models.tokenizer import character_tokenizer
from sage_cli.store import sample_parts, sample_writer
from sage_cli.store.sample_set import SampleIdentity, SampleSet

IDENTITY = SampleIdentity("model", "template", {}, 0)
PROMPTS = {f"p{i}": f"{i}+{i}=?" for i in range(6)}
N = 100
CHUNK, FLUSH_ROWS = 40, 10
PATIENCE_S = 300
EVERYTHING = {(problem, i): f"{prompt}{i}" for problem, prompt in PROMPTS.items() for i in range(N)}

pytestmark = pytest.mark.slow


def signal_at(number, part, moment):
    """Have this process send itself a signal at that moment of a part."""
    write, written = sample_parts.write_part, [0]

    def signalling(folder, *rest):
        written[0] += 1
        if written[0] == part and moment == "writing":
            (folder / ".part-half.parquet.0.tmp").write_bytes(b"half")
            os.kill(os.getpid(), number)
        path = write(folder, *rest)
        if written[0] == part and moment == "written":
            os.kill(os.getpid(), number)
        return path

    sample_writer.write_part = signalling


class Slow(Scripted):
    """Answers with the prompt and the index, after so many seconds."""

    def text(self, request, index):
        time.sleep(self.setup)
        return f"{request.prompt}{index}"


def fill_slowly(folder, pause_s):
    sample_writer.CHUNK, sample_writer._FLUSH_ROWS, sample_writer._POLL_S = CHUNK, FLUSH_ROWS, 0.05
    drawn = []
    samples, sampler = SampleSet(Path(folder), IDENTITY), Slow(float(pause_s))

    def note(rows):
        drawn.extend((row.problem_id, row.index) for row in rows)

    fill(samples, PROMPTS, N, sampler, note)
    sys.stdout.write(json.dumps(drawn))


@pytest.fixture
def start(tmp_path):
    """Starts a process that fills the set, with that many seconds a sample.

    With a part's number and a moment it kills itself then.
    """
    started = []

    def begin(pause_s, part=0, moment="never"):
        number = int(signal.SIGKILL) if part else 0
        words = map(str, (number, part, moment, "fill", tmp_path, pause_s))
        process = subprocess.Popen(
            [sys.executable, __file__, *words],
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def finish(process):
    """What it drew, and what it said on stderr."""
    out, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, said
    return [tuple(key) for key in json.loads(out)], said


def await_parts(root, count):
    deadline = time.monotonic() + PATIENCE_S
    while len(list(root.glob("samples/*/part-*.parquet"))) < count:
        assert time.monotonic() < deadline, f"no {count} parts within {PATIENCE_S} s"
        time.sleep(0.005)


def assert_whole(root):
    """Every sample once, as a lone run draws it, and nothing left behind."""
    samples = SampleSet(root, IDENTITY)
    rows = list(samples.completions())
    assert max(Counter((row.problem_id, row.index) for row in rows).values()) == 1
    assert {(row.problem_id, row.index): row.text for row in rows} == EVERYTHING
    assert samples.inventory().rows.num_rows == len(EVERYTHING)  # no sample was drawn twice
    assert not list(samples.folder.rglob(".*.tmp"))
    assert [file.name for file in (samples.folder / "claims").iterdir()] == ["mutex"]


def test_two_share_the_work(tmp_path, start):
    both = [start(0.005), start(0.005)]
    drawn = [finish(process)[0] for process in both]
    assert all(len(keys) >= CHUNK for keys in drawn)
    assert sorted(drawn[0] + drawn[1]) == sorted(EVERYTHING)
    assert_whole(tmp_path)


def test_one_is_killed_and_the_other_draws_the_rest(tmp_path, start):
    for part, moment in ((2, "written"), (3, "writing")):
        for doomed in [start(0.003, part, moment), start(0.01, 5 - part, moment)]:
            assert doomed.wait() == -signal.SIGKILL
    before = len(list(tmp_path.glob("samples/*/part-*.parquet")))
    doomed = start(0.03, 4, "writing")  # the last part of what it claimed first
    await_parts(tmp_path, before + 1)
    drawn, _ = finish(start(0.003))
    assert doomed.wait() == -signal.SIGKILL
    assert drawn
    finish(start(0.0))  # whoever comes next sweeps, should the doomed have been the last to end
    assert_whole(tmp_path)


def test_a_stopped_writers_share_is_awaited_and_taken_over_when_it_dies(tmp_path, start):
    stopped = start(0.05)
    await_parts(tmp_path, 1)
    stopped.send_signal(signal.SIGSTOP)
    held = len(list(tmp_path.glob("samples/*/part-*.parquet"))) * FLUSH_ROWS
    other = start(0.0)
    # it draws all but the stopped one's chunk, then waits
    parts = (N * len(PROMPTS) - CHUNK) // FLUSH_ROWS + held // FLUSH_ROWS
    await_parts(tmp_path, parts)
    time.sleep(0.5)
    assert other.poll() is None
    assert SampleSet(tmp_path, IDENTITY).inventory().count_missing(list(PROMPTS), N) == CHUNK - held
    stopped.send_signal(signal.SIGKILL)
    drawn, said = finish(other)
    assert len(drawn) == N * len(PROMPTS) - held
    assert f"waiting for samples from process {stopped.pid} on " in said
    assert_whole(tmp_path)


def test_a_stopped_writer_that_goes_on_keeps_its_share(tmp_path, start):
    stopped = start(0.02)
    await_parts(tmp_path, 1)
    stopped.send_signal(signal.SIGSTOP)
    other = start(0.0)
    await_parts(tmp_path, (N * len(PROMPTS) - CHUNK) // FLUSH_ROWS)
    stopped.send_signal(signal.SIGCONT)
    drawn = finish(stopped)[0] + finish(other)[0]
    assert sorted(drawn) == sorted(EVERYTHING)
    assert_whole(tmp_path)


def test_a_command_that_is_killed_three_times_and_resumed_draws_as_uninterrupted(tmp_path, warm):
    problems, n = 10, 512  # 5,120 samples, of which 4,096 are claimed at once
    tokenizer = character_tokenizer(["</SOLUTION>"])
    random_model(tokenizer).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    rows = (json.dumps({"question": f"{i}*{i}=?", "gold": str(i * i)}) for i in range(problems))
    (tmp_path / "problems.jsonl").write_text("\n".join(rows))

    def ended(root, *program):
        """The exit code of a command that samples at a temperature at which samples part."""
        words = f"passk model --preset tiny --benchmark problems.jsonl --runs {root} --k 1,256"
        words += f" --n {n} --set sampling.temperature=0.7 --set sampling.batch_rows=256"
        words += " --set sampling.max_tokens=8"
        done = subprocess.run(
            [*map(str, program), *words.split()],
            cwd=tmp_path,
            timeout=PATIENCE_S,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.DEVNULL,
        )
        return done.returncode

    def stored(root):
        described = next((tmp_path / root).glob("samples/*/set.json"), None)
        if described is None:
            return []
        samples = SampleSet(tmp_path / root, SampleIdentity(**json.loads(described.read_text())))
        return [((row.problem_id, row.index), row.text) for row in samples.completions()]

    assert ended("straight", warm.sage) == 0
    straight = dict(stored("straight"))
    assert len(straight) == problems * n
    held = [0]
    for part, moment in ((1, "writing"), (2, "written"), (3, "writing")):
        program = (warm.python, __file__, int(signal.SIGKILL), part, moment)
        assert ended("killed", *program) == -signal.SIGKILL
        held.append(len(stored("killed")))
    assert held[1] == 0 < held[2] < held[3] < problems * n
    assert ended("killed", warm.sage) == 0
    texts = dict(stored("killed"))
    assert len(stored("killed")) == len(texts)
    assert texts.keys() == straight.keys()
    # But for what sums in other batches may round away: a token in a million falls within rounding
    # of a border between two; here are 33,000.
    assert sum(texts[key] != straight[key] for key in straight) <= 2
    assert not list((tmp_path / "killed").glob("samples/*/.*.tmp"))


if __name__ == "__main__":
    number, part, moment, *words = sys.argv[1:]
    if number != "0":
        signal_at(int(number), int(part), moment)
    if words[0] == "fill":
        fill_slowly(*words[1:])
    else:
        sys.argv = ["sage", *words]
        main()
