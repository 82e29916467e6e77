"""optuna-dashboard, started by `sage sweep dashboard` on studies as drivers keep them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from free_port import free_port
from sweep_folder import sweep_folder

from sage_cli.trials.search.space import Space, Values
from sage_cli.trials.search.study import Study

pytest.importorskip(
    "optuna_dashboard", reason="optuna-dashboard isn't installed (the extra `dashboard`)"
)
SPACE = Space(parameters={"tau": Values(key="guide.tau", values=(0.1, 0.2))})


@pytest.mark.parametrize("storage", ["journal", "sqlite"])
def test_its_page_has_the_study_with_its_values(tmp_path: Path, storage: str) -> None:
    url = f"sqlite:///{tmp_path}/studies.db" if storage == "sqlite" else None
    folder = sweep_folder(tmp_path / "runs", "mine", storage=url)
    study = Study.open(url or folder, "mine", SPACE, "grid", 0, ["pass@1"])
    proposal = study.propose()
    assert proposal is not None
    study.tell(proposal, [0.25])
    port = free_port()
    words = ["-m", "sage_cli", "sweep", "dashboard", "mine", "--port", str(port)]
    started = subprocess.Popen(
        [sys.executable, *words, "--runs", str(tmp_path / "runs")],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", follow_redirects=True) as client:
            assert "Optuna Dashboard" in _page(client, started)
            (shown,) = client.get("/api/studies").json()["study_summaries"]
            assert shown["study_name"] == study.name
            trials = client.get(f"/api/studies/{shown['study_id']}").json()["trials"]
    finally:
        started.terminate()
        started.communicate()
    (trial,) = trials
    assert (trial["state"], trial["values"]) == ("Complete", [0.25])
    assert json.loads(trial["params"][0]["param_external_value"]) == 0.1


def _page(client: httpx.Client, started: subprocess.Popen[str]) -> str:
    """What a browser sees first, once somebody answers."""
    deadline = time.monotonic() + 120
    while True:
        try:
            return client.get("/").raise_for_status().text
        except httpx.TransportError:
            assert started.poll() is None, started.communicate()[1]
            assert time.monotonic() < deadline, "nobody answers"
            time.sleep(0.1)
