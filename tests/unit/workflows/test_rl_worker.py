"""One of several processes that train together."""

import pytest

from sage_cli.config.load import load
from sage_cli.errors import TrainingError
from sage_cli.store.atomic import write_json
from sage_cli.workflows.rl_worker import main


def test_a_launcher_that_starts_too_few_is_found_out(tmp_path):
    config = load(sets=["rl.processes=2"]).config
    write_json(tmp_path / "config.json", config.model_dump(mode="json"))
    with pytest.raises(TrainingError, match="started 1 of 2 processes"):
        main(tmp_path)
