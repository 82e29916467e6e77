"""What is published works where no checkout is: built, installed elsewhere, the README's commands.

The new environment sees this one's libraries and nothing of the checkout: its own folder comes
before them, and the editable install's hook isn't in it.
"""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest
from small import write_small

HERE = Path(__file__).resolve().parents[2]
# the first test of a file waits for the building too, and a busy machine makes minutes of it
pytestmark = pytest.mark.timeout(1800)

MORE = """
sft: {steps: 20, batch_size: 8, max_length: 48}
rl: {steps: 2, prompts_per_step: 2, rollouts_per_prompt: 2, stop_when_stuck: false}
evaluation: {samples: 4, k: 1..4, bootstrap: 100}
sweep: {samples: 2, objective: [pass@1, pass@2], steps: 2}
tracking: {wandb: off}
"""
PRESETS = ("-p", "tiny", "-p", "small.yaml")
TYPED = """
import json, sys
from typer.testing import CliRunner
from sage_cli.cli.app import app
for words in json.loads(sys.argv[1]):
    result = CliRunner().invoke(app, [*words, "--json"])
    assert result.exit_code == 0, result.output
    print(json.dumps(json.loads(result.stdout)))
"""
"""Commands of the installed package in one process, which loads torch once."""


def ran(*words, cwd, **environment):
    """What a command prints, without the checkout on its path."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        list(map(str, words)),
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env={**kept, "HF_HUB_OFFLINE": "1", **environment},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The sdist of a copy of the checkout's files, and the wheel that is built from it alone."""
    folder = tmp_path_factory.mktemp("built")
    copy, out = folder / "checkout", folder / "dist"
    skipped = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__")
    # what runs have left in the checkout is no part of it, and the package has a room of that name
    shutil.copytree(
        HERE,
        copy,
        ignore=lambda of, names: skipped(of, names) | ({"runs"} if Path(of) == HERE else set()),
    )
    build = "from setuptools import build_meta as b; import sys; b.build_{}(sys.argv[1])"
    out.mkdir()
    ran(sys.executable, "-c", build.format("sdist"), out, cwd=copy)
    (sdist,) = out.glob("*.tar.gz")
    with tarfile.open(sdist) as tar:
        tar.extractall(folder / "unpacked", filter="data")
    (unpacked,) = (folder / "unpacked").iterdir()
    ran(sys.executable, "-c", build.format("wheel"), out, cwd=unpacked)
    (wheel,) = out.glob("*.whl")
    return sdist, wheel


@pytest.fixture(scope="module")
def elsewhere(built, tmp_path_factory):
    """The folder of a new environment's programs, with the wheel installed in it."""
    folder = tmp_path_factory.mktemp("elsewhere") / "venv"
    ran(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder.parent)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = folder / "bin" / "python"
    ran(
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--force-reinstall",
        built[1],
        cwd=folder.parent,
    )
    return folder / "bin"


def test_both_hold_what_ships(built):
    sdist, wheel = built
    with tarfile.open(sdist) as tar:
        in_sdist = {name.partition("/")[2] for name in tar.getnames()}
    assert {"constraints.txt", "LICENSE"} <= in_sdist
    with zipfile.ZipFile(wheel) as file:
        in_wheel = set(file.namelist())
    vendor = {f"vendor/{name}" for name in ("plot.min.js", "plot.LICENSE", "d3.LICENSE")}
    page = {f"sage_cli/view/page/{name}" for name in ("index.html", "pages/run.js", *vendor)}
    assert {"sage_cli/py.typed", *page} <= in_wheel & in_sdist
    shared = {name.partition("data/share/sage/")[2] for name in in_wheel}
    files = {
        str(path.relative_to(HERE))
        for folder in ("configs", "sweeps", "templates")
        for path in (HERE / folder).rglob("*")
        if path.is_file()
    }
    assert len(files) > 30
    assert files <= shared & in_sdist


def test_it_is_the_installed_one_that_runs(elsewhere, tmp_path):
    where = ran(
        elsewhere / "python", "-c", "import sage_cli; print(sage_cli.__file__)", cwd=tmp_path
    )
    assert Path(where.strip()).is_relative_to(elsewhere.parent)
    assert ran(elsewhere / "sage", "--version", cwd=tmp_path).startswith("sage ")
    ran(elsewhere / "sage", "init", "study", cwd=tmp_path)
    assert (tmp_path / "study" / "preset.yaml").is_file()
    suites = json.loads(ran(elsewhere / "sage", "suite", "list", "--json", cwd=tmp_path))
    assert "table1" in {suite["name"] for suite in suites["suites"]}


def test_the_readmes_training_its_measurement_and_a_sweep(elsewhere, tmp_path):
    write_small(tmp_path, MORE)
    typed = [
        ["rl", "--algo", "dapo", "--guide", "branch", "--tau", "0.3", *PRESETS],
        ["passk", "--k", "1..4"],
        ["sweep", "--space", "tau,rho", *PRESETS, "--dry-run"],
    ]
    said = ran(elsewhere / "python", "-c", TYPED, json.dumps(typed), cwd=tmp_path).splitlines()
    trained, measured, planned = map(json.loads, said)
    assert trained["status"] == "finished"
    assert measured["k"] == [1, 2, 3, 4]
    assert planned["stages"][-1]["trials"] == 9
    # whose trial is that training; it is measured by processes of the installed package, too
    words = ["--space", "tau=0.3", "--set", "rl.algo=dapo", *PRESETS, "--json"]
    (trial,) = json.loads(ran(elsewhere / "sage", "sweep", *words, cwd=tmp_path))["trials"]
    assert (trial["settings"], trial["runs"]) == ({"guide.tau": 0.3}, [trained["id"]])
