"""The server that tests of studies use keeps its data; its password reaches it and no file."""

import stat
import subprocess
from urllib.parse import quote

import pytest
from every_byte import found_in
from sqlalchemy import create_engine, text
from sweep_lab import SweepLab

PASSWORD = "s3cret:of/a@database"


def test_what_is_written_is_there_after_a_restart(postgresql):
    engine = create_engine(postgresql.url)
    with engine.begin() as connection:
        connection.execute(text("create table trials (number int)"))
        connection.execute(text("insert into trials values (7)"))
    engine.dispose()
    postgresql.restart()
    with engine.connect() as connection:
        assert connection.execute(text("select number from trials")).scalar() == 7
    engine.dispose()


@pytest.fixture
def pgpass(tmp_path):
    """A password file, as libpq reads it: `:` is written `\\:` there."""
    file = tmp_path / "pgpass"
    file.write_text("*:*:*:sage:" + PASSWORD.replace(":", "\\:") + "\n")
    file.chmod(0o600)
    return str(file)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("way", ["typed", "typed raw", "environment", "file", "ours"])
def test_a_sweep_keeps_its_study_behind_a_password_that_no_file_holds(
    tmp_path, warm, guarded_postgresql, pgpass, way
):
    """In five ways it reaches the driver; `sweep remove` takes that of the environment."""
    address = guarded_postgresql.url
    typed = {"typed": quote(PASSWORD, safe=""), "typed raw": PASSWORD}.get(way)
    url = address if typed is None else address.replace("sage@", f"sage:{typed}@")
    known = {
        "environment": {"PGPASSWORD": PASSWORD},
        "file": {"PGPASSFILE": pgpass},
        "ours": {"SAGE_PASSWORDS": f'{{"{address}": "{PASSWORD}"}}'},
    }.get(way, {})
    (tmp_path / "lab").mkdir()
    lab = SweepLab(tmp_path / "lab", warm, (), {"OMP_NUM_THREADS": "1", **known})
    words = ("--study", f"study-{way.replace(' ', '-')}", "--space", lab.space([0], [0.8]))
    report = lab.run(*words, "--storage", url)
    assert [trial["state"] for trial in report["trials"]] == ["done"]
    assert lab.run(*words, "--storage", url)["trials"] == report["trials"]
    assert found_in(lab.folder, [PASSWORD, quote(PASSWORD, safe=""), "s3cret"]) == []
    assert found_in(lab.folder, [address])  # the address itself is kept, for its owner alone
    state = next(lab.folder.glob("runs/sweeps/*/state.json"))
    assert stat.S_IMODE(state.stat().st_mode) == 0o600

    def sage(*words, **environment):
        surroundings = {**lab.surroundings, "COLUMNS": "200", **environment}
        return subprocess.run(
            [lab.warm.sage, *words], cwd=lab.folder, env=surroundings,
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    shown = sage("sweep", "show", "study", "--json")
    assert address in shown.stdout
    assert "s3cret" not in shown.stdout + shown.stderr
    config = str(state.with_name("config.json"))
    unsaid = sage("sweep", "--config", config)
    assert unsaid.returncode == 2
    assert f"name it: --storage {address}" in " ".join(unsaid.stderr.replace("│", "").split())
    refused = sage("sweep", "remove", "study", "--yes", PGPASSWORD="wrong", SAGE_PASSWORDS="")
    assert refused.returncode == 2, refused.stdout + refused.stderr
    assert "can't be reached" in refused.stderr
    removed = sage("sweep", "remove", "study", "--yes", PGPASSWORD=PASSWORD, SAGE_PASSWORDS="")
    assert removed.returncode == 0, removed.stdout + removed.stderr
