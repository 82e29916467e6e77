"""A tiny sweep and its confirmation, as typed."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from sweep_lab import SweepLab
from warm import Warm

pytestmark = pytest.mark.slow


def typed(lab: SweepLab, *words: str) -> tuple[dict, str]:
    done = subprocess.run(
        [*lab.warm.driver, "sweeps", "confirm", "mine", *words, "--json"],
        cwd=lab.folder, env=lab.surroundings, capture_output=True, text=True, check=False,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout), done.stderr


def test_the_best_trial_is_trained_with_fresh_seeds_once(tmp_path: Path, warm: Warm) -> None:
    more = ["evaluation.samples=4", "evaluation.k=1,4"]
    lab = SweepLab(tmp_path, warm, [word for one in more for word in ("--set", one)])
    searched = lab.run("--space", lab.space([0], [0.8, 1.0]), "--study", "mine")
    words = ("--top", "1", "--seeds", "2", "--objective", "pass@1")
    html = (lab.folder / searched["folder"] / "sweep.html").read_text()
    held = re.search(r'id="data">(.*?)</script>', html)
    page = json.loads(held[1])["answers"]["sweep?sweep=mine"]
    assert page["sweep"]["driven_by"] is None  # as it will be for whoever opens it
    assert [page["commands"][one].split()[:2] for one in "12"] == [["sage", "rl"]] * 2
    planned, _ = typed(lab, *words, "--dry-run")
    assert planned["stages"][0]["rl.seed"] == "1001 to 1002"
    assert len(lab.runs) == 2
    found, _ = typed(lab, *words)
    (trial,) = found["trials"]
    assert found["searched_on"] == ["arithmetic-dev"]
    assert found["reported_on"] == ["arithmetic"]
    assert len(lab.runs) == 4
    assert not {run for one in searched["trials"] for run in one["runs"]} & set(trial["runs"])
    assert set(trial["values"]) == {"pass@1", "pass@4"}
    before = lab.begun()
    again, said = typed(lab, *words)
    assert again == found
    assert lab.begun() == before
    assert said.count("found in the store") == 3  # two runs and the initial policy
    assert (lab.folder / found["folder"] / "confirm.md").is_file()
