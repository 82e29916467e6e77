"""Real clusters on this machine: Ray, and Slurm of two nodes."""

import os
import signal
import socket
import subprocess
import threading
import time
from importlib.util import find_spec
from pathlib import Path
from shutil import which

import pytest
from free_port import free_port

os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"

NODES = ("n1", "n2")
CONFIGURATION = """
ClusterName=sage
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
AuthType=auth/none
CredType=cred/none
SlurmUser=root
SlurmdUser=root
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
SlurmdTimeout=10
ReturnToService=2
SchedulerParameters=sched_interval=2
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={n1} CPUs=1 RealMemory=2000
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={n2} CPUs=1 RealMemory=2000
PartitionName=main Nodes=ALL Default=YES State=UP MaxTime=INFINITE
"""
PATIENCE_S = 120


def pytest_collection_modifyitems(items):
    """What is here is of the tier `cluster`."""
    for item in items:
        item.add_marker(pytest.mark.cluster)


def _ray_cluster():
    if find_spec("ray") is None:
        pytest.skip("Ray isn't installed (make test-cluster)")
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    cluster.add_node(num_cpus=1)
    return cluster


@pytest.fixture(scope="session")
def ray_cluster():
    """A Ray cluster of two nodes with a core each, for as long as the tests in RAY_ADDRESS."""
    cluster = _ray_cluster()
    import ray

    os.environ["RAY_ADDRESS"] = cluster.address
    yield cluster
    del os.environ["RAY_ADDRESS"]
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture
def mortal_ray_cluster():
    """Another one, which a test may kill."""
    cluster = _ray_cluster()
    yield cluster
    cluster.shutdown()


class SlurmCluster:
    """A real Slurm on this machine: one controller, two nodes, no accounting. Needs root.

    Starts with a `with`, and ends with it; `configuration` is for SLURM_CONF.
    """

    def __init__(self, folder):
        self.configuration = folder / "slurm.conf"
        (folder / "state").mkdir()
        ports = {name: free_port() for name in ("controller", *NODES)}
        self.configuration.write_text(
            CONFIGURATION.format(host=socket.gethostname(), folder=folder, **ports)
        )
        self._daemons = {}
        self._ended = threading.Event()
        self._administrator = threading.Thread(target=self._release_requeued, daemon=True)

    def __enter__(self):
        self._start("slurmctld")
        for node in NODES:
            self.start(node)
        self._administrator.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._administrator.join()
        self.ask("scancel", "--user=root")
        deadline = time.monotonic() + PATIENCE_S
        while self.ask("squeue", "--noheader") and time.monotonic() < deadline:
            time.sleep(0.2)
        for daemon in self._daemons.values():
            daemon.kill()  # without its controller, a slurmd doesn't hear SIGTERM
            daemon.wait()

    def start(self, node):
        """Start a node's slurmd and wait until the controller has it."""
        self._start("slurmd", node)
        deadline = time.monotonic() + PATIENCE_S
        while "idle" not in self.ask("sinfo", f"--nodes={node}", "--noheader", "--format=%t"):
            assert time.monotonic() < deadline, f"{node} doesn't come up"
            time.sleep(0.2)

    def lose(self, node):
        """Kill a node's slurmd and what runs its jobs, as if the power went."""
        self._daemons.pop(node).kill()
        jobs = self.ask("squeue", "--noheader", f"--nodelist={node}", "--format=%A").split()
        for job in jobs:
            self._kill(f"SLURM_JOB_ID={job}\0".encode(), f"slurmstepd: [{job}.".encode())

    def ask(self, *command):
        """What a command of Slurm's prints."""
        environment = {**os.environ, "SLURM_CONF": str(self.configuration)}
        return subprocess.run(command, env=environment, capture_output=True, text=True).stdout

    def _release_requeued(self):
        """Slurm has a lost node's jobs wait for two minutes; an administrator may let them go."""
        while not self._ended.wait(1):
            listed = self.ask("squeue", "--noheader", "--states=PENDING", "--format=%i %r")
            for job, _, reason in (line.strip().partition(" ") for line in listed.splitlines()):
                if reason == "BeginTime":
                    self.ask("scontrol", "update", f"JobId={job}", "StartTime=now")

    def _start(self, daemon, node=None):
        command = [daemon, "-D", "-f", str(self.configuration), *(["-N", node] if node else [])]
        self._daemons[node or daemon] = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def _kill(self, variable, title):
        for process in Path("/proc").glob("[0-9]*"):
            try:
                mine = variable in (process / "environ").read_bytes()
                if mine or (process / "cmdline").read_bytes().startswith(title):
                    os.kill(int(process.name), signal.SIGKILL)
            except OSError:  # it has just ended
                continue


@pytest.fixture(scope="session")
def slurm_cluster(tmp_path_factory):
    """A Slurm of two nodes with a core each, for as long as the tests in SLURM_CONF."""
    if which("slurmctld") is None or find_spec("submitit") is None or os.geteuid():
        pytest.skip("needs Debian's slurm-wlm, submitit and root (make test-cluster)")
    with SlurmCluster(tmp_path_factory.mktemp("slurm")) as cluster:
        os.environ["SLURM_CONF"] = str(cluster.configuration)
        yield cluster
        del os.environ["SLURM_CONF"]
