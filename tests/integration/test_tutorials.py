"""Every command of the tutorials runs as it is printed, on a model that trains in seconds."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
TUTORIALS = sorted((REPOSITORY / "docs/tutorials").glob("*.md"))
SMALL = """
model: {hidden: 32, layers: 1, heads: 2, feed_forward: 64, max_positions: 96}
data:
  arithmetic:
    {low: 2, high: 6, held_out: 4, development: 4, familiar_share: 1.0,
     phases: [{share: 1.0, mix: {D: 1}}]}
sft: {steps: 120, batch_size: 32, max_length: 48, learning_rate: 1.0e-2}
rl: {steps: 2, prompts_per_step: 4, rollouts_per_prompt: 4, stop_when_stuck: false}
rollout: {max_tokens: 16}
sampling: {max_tokens: 16}
evaluation: {bootstrap: 100}
sweep: {steps: 1, samples: 64}
"""
SAGE = f"""#!{sys.executable}
# `sage` with small settings behind those that were typed.
import sys
from sage_cli.cli.app import main

words = sys.argv[1:]
if words[0] in ("rl", "sft", "passk", "sweep", "compare") or " ".join(words[:2]) in (
    "suite run", "suite plan", "suite report", "guide show", "samples show"
):
    tiny = [] if "--preset" in words else ["--preset", "tiny"]
    sys.argv = ["sage", *words, *tiny, "--preset", "SMALL"]
main()
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a `sage` of its own, in which the tutorials are followed one after another."""
    folder = tmp_path_factory.mktemp("tutorials")
    (folder / "small.yaml").write_text(SMALL)
    (folder / "bin").mkdir()
    sage = folder / "bin/sage"
    sage.write_text(SAGE.replace("SMALL", str(folder / "small.yaml")))
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
            "WANDB_MODE": "offline",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


def commands(text: str) -> list[str]:
    """What stands in the blocks marked `bash`, but for installations."""
    blocks: list[str] = re.findall(r"^```bash\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [re.sub(r"^pip install .*\n", "", block, flags=re.MULTILINE) for block in blocks]
