"""SIGKILL while `sage passk` samples: nothing lost, nothing drawn twice, one writer at a time."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from random_model import random_model

from sage_cli.models.tokenizer import character_tokenizer
from sage_cli.store.completion import Completion
from sage_cli.store.samples import FLUSH_ROWS, SampleIdentity, SampleSet

PROBLEMS, N = 8, 512
"""4,096 samples, of which every 512 become a part."""
PATIENCE_S = 120

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a random model and a file of problems."""
    folder = tmp_path_factory.mktemp("lab")
    tokenizer = character_tokenizer(["</SOLUTION>"])
    model = random_model(tokenizer)
    model.save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    lines = (json.dumps({"question": f"{i}*{i}=?", "gold": str(i * i)}) for i in range(PROBLEMS))
    (folder / "problems.jsonl").write_text("\n".join(lines))
    return folder


def start(lab: Path, root: str) -> subprocess.Popen[str]:
    """`sage passk` on that model, greedily, as it is typed."""
    words = f"passk model --benchmark problems.jsonl --k 1,256 --n {N} --runs {root} --json"
    settings = ("sampling.temperature=0", "sampling.batch_rows=64", "sampling.max_tokens=24")
    sets = [word for setting in settings for word in ("--set", setting)]
    return subprocess.Popen(
        [str(Path(sys.executable).with_name("sage")), *words.split(), *sets],
        cwd=lab,
        env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(started: subprocess.Popen[str]) -> tuple[int, str]:
    """Exit code and what was said on stderr."""
    _, said = started.communicate(timeout=PATIENCE_S)
    return started.returncode, said


def await_parts(lab: Path, root: str, count: int) -> None:
    """Wait until that many parts are on disk."""
    deadline = time.monotonic() + PATIENCE_S
    while len(list((lab / root).glob("samples/*/part-*.parquet"))) < count:
        assert time.monotonic() < deadline, f"no {count} parts within {PATIENCE_S} s"
        time.sleep(0.005)


def stored(lab: Path, root: str) -> Iterator[Completion]:
    """What the only sample set below `root` holds."""
    (described,) = (lab / root).glob("samples/*/set.json")
    identity = SampleIdentity(**json.loads(described.read_text()))
    return SampleSet(lab / root, identity).completions()


@pytest.fixture(scope="module")
def straight(lab: Path) -> dict[tuple[str, int], str]:
    """The texts of a run that nobody disturbed."""
    code, said = finish(start(lab, "straight"))
    assert code == 0, said
    return {(row.problem_id, row.index): row.text for row in stored(lab, "straight")}


def test_killed_three_times_and_resumed_equals_uninterrupted(
    lab: Path, straight: dict[tuple[str, int], str]
) -> None:
    assert len(straight) == PROBLEMS * N
    parts = 0
    for _ in range(3):
        parts += random.randint(1, 2)
        started = start(lab, "killed")
        await_parts(lab, "killed", parts)
        time.sleep(random.uniform(0, 0.05))
        started.send_signal(signal.SIGKILL)
        assert finish(started)[0] == -signal.SIGKILL
        survived = len(list(stored(lab, "killed")))
        assert parts * FLUSH_ROWS <= survived < PROBLEMS * N
        parts = survived // FLUSH_ROWS
    code, said = finish(start(lab, "killed"))
    assert code == 0, said
    rows = list(stored(lab, "killed"))
    assert max(Counter((row.problem_id, row.index) for row in rows).values()) == 1
    assert {(row.problem_id, row.index): row.text for row in rows} == straight
    assert not list((lab / "killed").glob("samples/*/.*.tmp"))


def test_a_second_writer_is_refused_by_name(
    lab: Path, straight: dict[tuple[str, int], str]
) -> None:
    first = start(lab, "shared")
    await_parts(lab, "shared", 1)
    first.send_signal(signal.SIGSTOP)
    try:
        code, said = finish(start(lab, "shared"))
    finally:
        first.send_signal(signal.SIGCONT)
    assert code == 2
    assert f"process {first.pid}" in " ".join(said.replace("│", " ").split())
    assert finish(first)[0] == 0
    assert {(row.problem_id, row.index): row.text for row in stored(lab, "shared")} == straight
