"""SIGKILL while `sage passk` samples: nothing lost, nothing drawn twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import signalling_writer
from random_model import random_model
from warm import Warm

from sage_cli.models.scratch import character_tokenizer
from sage_cli.store.sample_parts import Completion
from sage_cli.store.sample_set import SampleIdentity, SampleSet

PROBLEMS, N = 10, 512
"""5,120 samples, of which 4,096 are claimed at once."""
PATIENCE_S = 300

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Lab:
    """A folder with a random model and a file of problems, and the program that samples there."""

    folder: Path
    warm: Warm


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, warm: Warm) -> Lab:
    folder = tmp_path_factory.mktemp("lab")
    tokenizer = character_tokenizer(["</SOLUTION>"])
    model = random_model(tokenizer)
    model.save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    lines = (json.dumps({"question": f"{i}*{i}=?", "gold": str(i * i)}) for i in range(PROBLEMS))
    (folder / "problems.jsonl").write_text("\n".join(lines))
    return Lab(folder, warm)


def start(lab: Lab, root: str, *program: str) -> subprocess.Popen[str]:
    """`sage passk`, or what `program` makes of it, at a temperature at which samples part."""
    words = f"passk model --preset tiny --benchmark problems.jsonl --runs {root} --json"
    words += f" --k 1,256 --n {N}"
    settings = ("sampling.temperature=0.7", "sampling.batch_rows=256", "sampling.max_tokens=8")
    sets = [word for setting in settings for word in ("--set", setting)]
    return subprocess.Popen(
        [*(program or (lab.warm.sage,)), *words.split(), *sets],
        cwd=lab.folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(started: subprocess.Popen[str]) -> tuple[int, str]:
    """Exit code and what was said on stderr."""
    _, said = started.communicate(timeout=PATIENCE_S)
    return started.returncode, said


def signalling(python: str, number: int, part: int, moment: str) -> tuple[str, ...]:
    """The program that sends itself a signal at a moment of a part that it writes."""
    return (python, signalling_writer.__file__, str(number), str(part), moment)


def stored(lab: Lab, root: str) -> Iterator[Completion]:
    """What the only sample set below `root` holds."""
    described = next((lab.folder / root).glob("samples/*/set.json"), None)
    if described is None:
        return iter(())
    identity = SampleIdentity(**json.loads(described.read_text()))
    return SampleSet(lab.folder / root, identity).completions()


@pytest.fixture(scope="module")
def straight(lab: Lab) -> dict[tuple[str, int], str]:
    """The texts of a run that nobody disturbed."""
    code, said = finish(start(lab, "straight"))
    assert code == 0, said
    return {(row.problem_id, row.index): row.text for row in stored(lab, "straight")}


def assert_same_texts(rows: Iterable[Completion], straight: dict[tuple[str, int], str]) -> None:
    """The same samples with the same texts, but for what sums in other batches may round away.

    A token in a million falls within rounding of a border between two; here are 33,000.
    """
    texts = {(row.problem_id, row.index): row.text for row in rows}
    assert texts.keys() == straight.keys()
    assert sum(texts[key] != straight[key] for key in straight) <= 2


def test_killed_three_times_and_resumed_equals_uninterrupted(
    lab: Lab, straight: dict[tuple[str, int], str]
) -> None:
    assert len(straight) == PROBLEMS * N
    held = [0]
    for part, moment in ((1, "writing"), (2, "written"), (3, "writing")):
        program = signalling(lab.warm.python, signal.SIGKILL, part, moment)
        assert finish(start(lab, "killed", *program))[0] == -signal.SIGKILL
        held.append(len(list(stored(lab, "killed"))))
    assert held[1] == 0 < held[2] < held[3] < PROBLEMS * N
    code, said = finish(start(lab, "killed"))
    assert code == 0, said
    rows = list(stored(lab, "killed"))
    assert max(Counter((row.problem_id, row.index) for row in rows).values()) == 1
    assert_same_texts(rows, straight)
    assert not list((lab.folder / "killed").glob("samples/*/.*.tmp"))
