"""Claims: what several writers of one set draw without meeting."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sage_cli.errors import StoreError
from sage_cli.store.lease import EXPIRY_S
from sage_cli.store.samples import claims as claims_module
from sage_cli.store.samples.claims import Claims

CLAIM = """
import sys
from pathlib import Path
from sage_cli.store.samples.claims import Claims
claims = Claims(Path(sys.argv[1]))
with claims.registered():
    with claims.mutex():
        claims.take({"a": [0, 1]})
    print(claims.token, flush=True)
    sys.stdin.read()
"""


def others(claims: Claims) -> dict[str, dict[str, list[int]]]:
    with claims.mutex():
        return {token: dict(claim.indices) for token, claim in claims.others().items()}


def test_a_claim_is_seen_by_others_and_goes_with_its_writer(tmp_path: Path) -> None:
    first, second = Claims(tmp_path), Claims(tmp_path)
    with second.registered():
        with first.registered():
            with first.mutex():
                first.take({"a": [3]})
            assert others(second) == {first.token: {"a": [3]}}
            with first.mutex():
                first.take({"b": [1]})
            assert others(second) == {first.token: {"b": [1]}}
            with first.mutex():
                first.take({})
            assert others(second) == {first.token: {}}
            assert others(first) == {second.token: {}}
        assert others(second) == {}
    assert [file.name for file in (tmp_path / "claims").iterdir()] == ["mutex"]


def test_a_killed_writers_claim_is_void_and_removed(tmp_path: Path) -> None:
    mine = Claims(tmp_path)
    with (
        mine.registered(),
        subprocess.Popen(
            [sys.executable, "-c", CLAIM, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as other,  # fmt: skip
    ):
        assert other.stdout is not None
        token = other.stdout.readline().strip()
        with mine.mutex():
            (claim,) = mine.others().values()
        assert claim.indices == {"a": [0, 1]}
        assert f"process {other.pid} on " in claim.holder
        assert list((tmp_path / "claims").glob(f"{token}.*"))
        other.kill()
        other.wait()
        assert others(mine) == {}
        assert not list((tmp_path / "claims").glob(f"{token}.*"))


def test_a_claim_of_another_host_is_alive_until_it_was_silent_for_long(tmp_path: Path) -> None:
    mine = Claims(tmp_path)
    program = f"from other_host import elsewhere\nelsewhere('b')\n{CLAIM}"
    with (
        mine.registered(),
        subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        ) as other,  # fmt: skip
    ):
        assert other.stdout is not None
        token = other.stdout.readline().strip()
        other.kill()
        other.wait()
        assert others(mine) == {token: {"a": [0, 1]}}
        sign = tmp_path / "claims" / f"{token}.lock.lease"
        os.utime(sign, (then := time.time() - EXPIRY_S - 1, then))
        assert others(mine) == {}
        assert not sign.exists()


def test_a_writer_whose_claim_is_void_stores_no_more(tmp_path: Path) -> None:
    mine = Claims(tmp_path)
    mine.require()  # not yet one of the writers
    with mine.registered():
        mine.require()
        for file in (tmp_path / "claims").glob(f"{mine.token}.*"):
            file.unlink()  # as another host's writer does, which heard nothing for long
        with pytest.raises(StoreError, match="was taken over"):
            mine.require()


@pytest.mark.parametrize("torn", ["", '{"holder": "pro', "[]", '{"holder": "me", "indices": 3}'])
def test_a_torn_claim_claims_nothing(tmp_path: Path, torn: str) -> None:
    first, second = Claims(tmp_path), Claims(tmp_path)
    with first.registered(), second.registered():
        (tmp_path / "claims" / f"{first.token}.json").write_text(torn)
        assert others(second) == {first.token: {}}


def test_half_written_files_go_but_not_a_living_writers(tmp_path: Path) -> None:
    mine, other = Claims(tmp_path), Claims(tmp_path)
    dead = tmp_path / ".part-00000000-000000-ab.parquet.12345678.tmp"
    former = tmp_path / ".part-000000-ab.parquet.4711.tmp"
    alive = tmp_path / f".part-{other.token}-000000-ab.parquet.12345678.tmp"
    for leftover in (dead, former, alive):
        leftover.write_bytes(b"half")
    with mine.registered(), other.registered(), mine.mutex():
        mine.sweep()
    assert [file for file in (dead, former, alive) if file.exists()] == [alive]


def test_a_mutex_that_is_never_given_back_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims_module, "PATIENCE_S", 0.1)
    with (
        Claims(tmp_path).mutex(),
        pytest.raises(StoreError, match="claims") as caught,
        Claims(tmp_path).mutex(),
    ):
        pass
    assert "stopped process" in str(caught.value.next_step)
