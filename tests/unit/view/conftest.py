"""Made-up runs that the tests of the room look at and do not change."""

import pytest
from shown_runs import shown_runs

from sage_cli.view.api import Api


@pytest.fixture(scope="session")
def shown(tmp_path_factory):
    """A folder of runs; nothing may be written into it."""
    return shown_runs(tmp_path_factory.mktemp("shown") / "runs")


@pytest.fixture(scope="session")
def api(shown):
    return Api(shown)
