"""Sweeps on real engines of which parts are killed: every trial once, or named as failed."""

from collections import Counter

import pytest
from sweep_lab import SweepLab, kill

from sage_cli.trials.sweep.journal import open_journal

pytestmark = pytest.mark.timeout(1500)

SMALL_GRID = ([0, 1], [0.8, 1.0])
"""Four trials: one dies once."""
SOUND_GRID = ([0, 1], [1.0, 1.2])
"""Four trials, none of which dies by itself."""
NO_GPU = ("--set", "executor.gpus=0")
"""On clusters a training has a GPU unless it is told otherwise."""


@pytest.fixture
def lab(tmp_path, warm):
    return SweepLab(tmp_path, warm, environment={"OMP_NUM_THREADS": "1"})


def complete(lab, report, done, failed=0):
    """Every trial is there once or named as failed, nothing was trained twice, nothing runs."""
    assert Counter(trial["state"] for trial in report["trials"]) == Counter(
        {"done": done, **({"failed": failed} if failed else {})}
    )
    settings = [tuple(trial["settings"].values()) for trial in report["trials"]]
    assert len(set(settings)) == len(settings) == done + failed
    runs = [run for trial in report["trials"] if trial["state"] == "done" for run in trial["runs"]]
    assert len(set(runs)) == len(runs)
    finished = [run["id"] for run in lab.runs if run["status"] == "finished"]
    assert set(runs) <= set(finished)
    lab.wait_until(lambda: not lab.tasks(), seconds=60)


def test_a_ray_cluster_that_loses_a_node(lab, ray_cluster):
    node = ray_cluster.add_node(num_cpus=1)
    words = ("--space", lab.space(*SMALL_GRID), "--executor", "ray", *NO_GPU)
    words += ("--address", ray_cluster.address)
    driver = lab.start(*words, "--json")
    lab.wait_until(lambda: any(run["status"] == "running" for run in lab.runs))
    ray_cluster.remove_node(node, allow_graceful=False)
    _, errors = driver.communicate(timeout=600)
    assert driver.returncode == 0, errors[-3000:]
    complete(lab, lab.run(*words), done=4)


def killed(cluster, what):
    """SIGKILL to parts of a Ray cluster."""
    if what == "control service":
        cluster.head_node.kill_gcs_server(check_alive=False)
        return
    if what == "whole cluster":
        cluster.remove_node(cluster.worker_nodes.copy().pop(), allow_graceful=False)
    cluster.remove_node(cluster.head_node, allow_graceful=False)


@pytest.mark.parametrize("what", ["control service", "head", "whole cluster"])
def test_a_ray_cluster_that_dies(lab, ray_cluster, mortal_ray_cluster, what):
    """The sweep stops and says so, no trial is to blame, and another cluster goes on with them."""
    words = ("--space", lab.space(*SOUND_GRID), "--executor", "ray", *NO_GPU, "--address")
    address = mortal_ray_cluster.address  # which it forgets when it dies
    driver = lab.start(*words, address)
    lab.wait_until(lambda: lab.runs or driver.poll() is not None)
    killed(mortal_ray_cluster, what)
    _, errors = driver.communicate(timeout=120)
    assert driver.returncode == 2, errors[-3000:]
    assert errors.count("╭") == 1, errors[-3000:]
    assert f"Ray cluster at {address} is gone" in " ".join(errors.split())
    assert "Traceback" not in errors
    (study,) = lab.folder.glob("runs/sweeps/*")
    storage = open_journal(study)
    (known,) = storage.get_all_studies()
    states = {trial.state.name for trial in storage.get_all_trials(known._study_id)}
    assert states <= {"RUNNING", "COMPLETE"}, errors[-3000:]
    complete(lab, lab.run(*words, ray_cluster.address), done=4)
    assert len(lab.runs) == 4


def test_a_slurm_whose_node_dies_and_whose_driver_is_killed(lab, slurm_cluster):
    words = ("--space", lab.space(*SMALL_GRID), "--executor", "slurm", *NO_GPU)
    driver = lab.start(*words)
    lab.wait_until(lambda: lab.runs or driver.poll() is not None)
    kill(driver.pid)
    driver.communicate()
    assert lab.tasks()  # Slurm's jobs go on without their driver
    begun = sum(lab.begun().values())
    driver = lab.start(*words, "--json")
    lab.wait_until(lambda: sum(lab.begun().values()) > begun or driver.poll() is not None)
    slurm_cluster.lose("n2")
    slurm_cluster.start("n2")
    _, errors = driver.communicate(timeout=900)
    assert driver.returncode == 0, errors[-3000:]
    complete(lab, lab.run(*words), done=4)


def test_slurm_is_left_alone_and_asked_later(lab, slurm_cluster):
    words = ("--space", lab.space([0], [1.0]), "--executor", "slurm", *NO_GPU)
    lab.run(*words)  # the base is there
    words = ("--space", lab.space([0], [1.0, 1.2]), "--executor", "slurm", *NO_GPU)
    left = lab.run(*words, "--detach")
    assert Counter(trial["state"] for trial in left["trials"]) == {"done": 1, "running": 1}
    lab.wait_until(lambda: not lab.tasks() and len(lab.runs) == 2)
    begun = lab.begun()
    complete(lab, lab.run(*words), done=2)
    assert lab.begun() == begun
