"""A real PostgreSQL server in a temporary folder, run by an unprivileged user."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from free_port import free_port

UNPRIVILEGED = 65534  # nobody: the server refuses to run as root


class PostgresqlServer:
    """Starts with a `with`, and ends with it; `url` is for SQLAlchemy, without the password.

    Without a `password` it trusts everybody. `folder` is to be open to others, unlike those of
    pytest, where its user isn't who runs tests.
    """

    def __init__(self, folder: Path, password: str | None = None) -> None:
        self._folder, self._port, self._password = folder, free_port(), password
        self.url = f"postgresql+psycopg://sage@127.0.0.1:{self._port}/postgres"
        self._user = UNPRIVILEGED if os.geteuid() == 0 else None
        if self._user is not None:
            os.chown(folder, self._user, -1)

    @staticmethod
    def program(name: str) -> str | None:
        """A program of the server's, which Debian keeps off the path."""
        folders = sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")), reverse=True)
        return shutil.which(name, path=os.pathsep.join([*folders, os.environ["PATH"]]))

    def __enter__(self) -> PostgresqlServer:
        how = ["--auth=trust"]
        if self._password is not None:
            (self._folder / "password").write_text(self._password)
            how = ["--auth=scram-sha-256", f"--pwfile={self._folder / 'password'}"]
        self._run("initdb", *how, "--username=sage", "--no-sync")
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start it and wait until it answers."""
        options = f"-p {self._port} -k {self._folder} -c listen_addresses=127.0.0.1"
        log = self._folder / "log"
        self._run("pg_ctl", "start", "--wait", f"--options={options}", f"--log={log}")

    def stop(self) -> None:
        """Stop it at once, as a crash does; connections break."""
        self._run("pg_ctl", "stop", "--wait", "--mode=immediate", check=False)

    def restart(self) -> None:
        """Stop and start, on the same port with the same data."""
        self.stop()
        self.start()

    def _run(self, name: str, *options: str, check: bool = True) -> None:
        program = self.program(name)
        assert program is not None
        command = [program, f"--pgdata={self._folder / 'data'}", *options]
        done = subprocess.run(
            command,
            user=self._user,
            group=self._user,
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE if name == "initdb" else subprocess.DEVNULL,
            text=True,
        )
        assert not check or done.returncode == 0, f"{name}: {done.stderr}"
