"""Where studies are kept: databases, and those that can't be reached."""

from __future__ import annotations

import optuna
import pytest
from sqlalchemy.exc import OperationalError

from sage_cli.errors import ConfigurationError, StoreError
from sage_cli.settings.passwords import VARIABLE
from sage_cli.trials.search import storage
from sage_cli.trials.search.space import Space, Values
from sage_cli.trials.search.study import Study

SPACE = Space(parameters={"tau": Values(key="guide.tau", values=(1, 2))})


def test_a_database_keeps_a_study(tmp_path):
    url = f"sqlite:///{tmp_path}/studies.db"
    study = Study.open(url, "mine", SPACE, "grid", 0, ["pass@1"])
    study.tell(study.propose(), [0.5])
    study.propose()
    again = Study.open(url, "mine", SPACE, "grid", 0, ["pass@1"])
    assert [one.state for one in again.trials()] == ["done", "running"]
    assert optuna.get_all_study_names(storage.open_storage(url)) == [study.name]


@pytest.fixture(autouse=True)
def own_environment(monkeypatch):
    monkeypatch.setenv(VARIABLE, "")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:s3cr:e@t@127.0.0.1:1/x",
        "postgresql+pg8000://ann:s3cr:e@t@127.0.0.1:1/x",
        "nosuch://ann:s3cr:e@t@host/x",
        "postgresql://host/x?user=ann&password=s3cr:e@t&a=b",
        "no url, s3cr:e@t",
    ],
)
def test_what_is_no_reachable_database_is_named_without_its_password(url):
    with pytest.raises((ConfigurationError, StoreError)) as caught:
        storage.open_storage(url)
    said = caught.value.cause + str(caught.value.next_step)
    assert "sweep.storage" in said
    assert "s3cr" not in said
    assert "e@t" not in said
    assert ("ann" in said) == ("ann" in url)


def test_a_folder_that_is_missing_is_named(tmp_path):
    url = f"sqlite:///{tmp_path}/missing/studies.db"
    with pytest.raises(StoreError, match=r"missing/studies.db can't be reached: unable to open"):
        storage.open_storage(url)


def away(times):
    """An operation on a database that is away so many times."""
    calls = []

    def operation():
        calls.append(1)
        if len(calls) <= times:
            raise OperationalError("select", {}, Exception("server closed the connection"))
        return len(calls)

    return operation


def test_a_database_that_is_restarted_is_waited_for(monkeypatch, caplog):
    monkeypatch.setattr(storage.time, "sleep", lambda _: None)
    assert storage.patiently("postgresql://ann:secret@host/x", away(3)) == 4
    (said,) = caplog.messages
    assert said.startswith("the study's database postgresql://ann@host/x can't be reached: ser")


def test_a_database_that_stays_away_ends_the_driver(monkeypatch):
    monkeypatch.setattr(storage, "PATIENCE_S", 0.0)
    with pytest.raises(StoreError, match="server closed the connection") as caught:
        storage.patiently("postgresql://ann:secret@host/x", away(9))
    assert "resumes there" in caught.value.next_step
