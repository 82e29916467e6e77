"""Real clusters on this machine: Ray, and Slurm of two nodes."""

import os
from importlib.util import find_spec
from shutil import which

import pytest
from slurm_cluster import SlurmCluster

os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"


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


@pytest.fixture(scope="session")
def slurm_cluster(tmp_path_factory):
    """A Slurm of two nodes with a core each, for as long as the tests in SLURM_CONF."""
    if which("slurmctld") is None or find_spec("submitit") is None or os.geteuid():
        pytest.skip("needs Debian's slurm-wlm, submitit and root (make test-cluster)")
    with SlurmCluster(tmp_path_factory.mktemp("slurm")) as cluster:
        os.environ["SLURM_CONF"] = str(cluster.configuration)
        yield cluster
        del os.environ["SLURM_CONF"]
