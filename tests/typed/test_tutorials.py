"""Every command of the tutorials runs as it is printed, on a model that trains in seconds."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from small import write_small
from warm import Warm

REPOSITORY = Path(__file__).resolve().parents[2]
TUTORIALS = sorted((REPOSITORY / "docs/tutorials").glob("*.md"))
OWN_STUDY = REPOSITORY / "docs/tutorials/own-study.md"
MORE = """
sft: {steps: 40, batch_size: 32, max_length: 48, learning_rate: 1.0e-2}
rl: {steps: 2, prompts_per_step: 4, rollouts_per_prompt: 4, stop_when_stuck: false}
evaluation: {bootstrap: 100}
sweep: {steps: 1, samples: 64}
tracking: {wandb: off}
"""
SAGE = f"""#!{sys.executable} -IS
# `sage` with small settings behind those that were typed.
import os, sys

words = sys.argv[1:]
others = "--preset" in words and words[words.index("--preset") + 1] != "tiny"
others |= words[1:2] == ["theirs"]  # imported samples have settings of their own
searching = words[0] == "sweep" and words[1:2][0].startswith("-")
measuring = words[0] in ("rl", "sft", "passk", "compare") or searching or " ".join(words[:2]) in (
    "suite run", "suite plan", "suite report", "samples tokens", "samples show"
)
measuring |= words[0] == "analyze" and "own.yaml" in words  # as `compare` measured
if measuring and not others:
    tiny = [] if "--preset" in words else ["--preset", "tiny"]
    words += [*tiny, "--preset", "PRESET"]
os.execv("WARM", ["sage", *words])
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, warm: Warm) -> Path:
    """A folder with a `sage` of its own, in which the tutorials are followed one after another."""
    folder = tmp_path_factory.mktemp("tutorials")
    write_small(folder, MORE)
    (folder / "bin").mkdir()
    sage = folder / "bin/sage"
    sage.write_text(SAGE.replace("PRESET", str(folder / "small.yaml")).replace("WARM", warm.sage))
    sage.chmod(0o755)
    shutil.copytree(REPOSITORY / "examples", folder / "examples")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-build-isolation",
         "--no-deps", "--target", str(folder / "site"), str(folder / "examples")],
        check=True,
    )  # fmt: skip
    return folder


@pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda file: file.stem)
def test_a_tutorial_can_be_followed(lab: Path, tutorial: Path) -> None:
    script = "\n".join(commands(tutorial.read_text()))
    assert "sage " in script
    done = subprocess.run(
        ["bash", "-ex", "-c", script],
        cwd=lab,
        env={
            **os.environ,
            "PATH": f"{lab / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": f"{REPOSITORY}:{lab / 'site'}",
            "OMP_NUM_THREADS": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


def test_a_study_with_everything_ones_own_takes_at_most_twelve_commands() -> None:
    blocks = "\n".join(re.findall(r"^```bash\n(.*?)^```", OWN_STUDY.read_text(), re.DOTALL | re.M))
    typed = re.findall(r"^(?:sage|python|pip) .*", blocks, re.MULTILINE)
    done = " ".join(line.partition(" ")[2].split()[0] for line in typed)
    assert len(typed) <= 12
    for command in ("rl", "compare", "analyze", "export"):
        assert command in done.split()


def commands(text: str) -> list[str]:
    """What stands in the blocks marked `bash`, but for installations."""
    blocks: list[str] = re.findall(r"^```bash\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [re.sub(r"^pip install .*\n", "", block, flags=re.MULTILINE) for block in blocks]
