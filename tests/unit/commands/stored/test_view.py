"""`sage view`: what a name means, and what is refused."""

import json

import pytest
from shown_runs import shown_runs

from sage_cli.commands.stored.view import beginning, export
from sage_cli.errors import ConfigurationError, StoreError
from sage_cli.progress import Silent


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    return shown_runs(tmp_path_factory.mktemp("shown") / "runs")


@pytest.mark.parametrize(
    ("name", "address"),
    [
        (None, "#/runs"),
        ("branch", "#/run?run=rl-dapo-branch-bbbbbbbb"),
        ("tau", "#/sweep?sweep=tau-rho-12345678"),
        ("demo", "#/suite?suite=demo-12345678"),
    ],
)
def test_a_part_of_a_name_is_enough(shown, name, address):
    assert beginning(shown, name).address == address


def test_an_ambiguous_name_is_refused(shown):
    with pytest.raises(StoreError, match="'rl-' fits 3"):
        beginning(shown, "rl-")
    with pytest.raises(StoreError, match="there is no run, sweep or suite 'nothing'"):
        beginning(shown, "nothing")


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(ConfigurationError, match="there is no folder"):
        beginning(tmp_path / "nowhere", None)


def test_an_export_is_refused_before_anything_is_read(shown, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(ConfigurationError, match="other things"):
        export(shown, beginning(shown, None), tmp_path, 1, Silent())


def test_an_export_begins_with_what_was_named(shown, tmp_path):
    file = export(shown, beginning(shown, "demo"), tmp_path / "page", 4, Silent())
    data = file.read_text().split('id="data">')[1].split("</script>")[0]
    held = json.loads(data)
    assert held["begin"] == "#/suite?suite=demo-12345678"
    assert "suite?suite=demo-12345678" in held["answers"]
