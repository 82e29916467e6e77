"""Claims of several writers on one set."""

import os
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
from stored import completion, put

from sage_cli.errors import StoreError
from sage_cli.store import claims, sample_writer
from sage_cli.store.claims import Claims
from sage_cli.store.locks import EXPIRY_S

CLAIM = """
import sys
from pathlib import Path
from sage_cli.store.claims import Claims
claims = Claims(Path(sys.argv[1]))
with claims.registered():
    with claims.mutex():
        claims.take({"a": [0, 1]})
    print(claims.token, flush=True)
    sys.stdin.read()
"""


@contextmanager
def claiming(folder, before=""):
    """Another process that claims samples, and its token."""
    program = f"{before}{CLAIM}"
    with subprocess.Popen(
        [sys.executable, "-c", program, str(folder)],
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    ) as other:
        yield other, other.stdout.readline().strip()


def others(claims):
    with claims.mutex():
        return {token: dict(claim.indices) for token, claim in claims.others().items()}


def test_a_claim_is_seen_by_others_and_goes_with_its_writer(tmp_path):
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


def test_a_killed_writers_claim_is_void_and_removed(tmp_path):
    mine = Claims(tmp_path)
    with mine.registered(), claiming(tmp_path) as (other, token):
        with mine.mutex():
            (claim,) = mine.others().values()
        assert claim.indices == {"a": [0, 1]}
        assert f"process {other.pid} on " in claim.holder
        assert list((tmp_path / "claims").glob(f"{token}.*"))
        other.kill()
        other.wait()
        assert others(mine) == {}
        assert not list((tmp_path / "claims").glob(f"{token}.*"))


def test_a_claim_of_another_host_is_alive_until_it_was_silent_for_long(tmp_path):
    mine = Claims(tmp_path)
    elsewhere = "from other_host import elsewhere\nelsewhere('b')\n"
    with mine.registered(), claiming(tmp_path, elsewhere) as (other, token):
        other.kill()
        other.wait()
        assert others(mine) == {token: {"a": [0, 1]}}
        sign = tmp_path / "claims" / f"{token}.lock.lease"
        os.utime(sign, (then := time.time() - EXPIRY_S - 1, then))
        assert others(mine) == {}
        assert not sign.exists()


@pytest.mark.parametrize("torn", ["", '{"holder": "pro', "[]", '{"holder": "me", "indices": 3}'])
def test_a_torn_claim_claims_nothing(tmp_path, torn):
    first, second = Claims(tmp_path), Claims(tmp_path)
    with first.registered(), second.registered():
        (tmp_path / "claims" / f"{first.token}.json").write_text(torn)
        assert others(second) == {first.token: {}}


def test_a_mutex_that_is_never_given_back_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(claims, "_PATIENCE_S", 0.1)
    refused = pytest.raises(StoreError, match="claims")
    with Claims(tmp_path).mutex(), refused as caught, Claims(tmp_path).mutex():
        pass
    assert "stopped process" in str(caught.value.next_step)


def test_what_is_missing_is_claimed_in_chunks(samples, monkeypatch):
    monkeypatch.setattr(sample_writer, "CHUNK", 3)
    put(samples, completion("a", 1))
    with samples.writing({}) as writer:
        shares = []
        while share := writer.claim(["a", "b"], 4):
            shares.append(share)
            for problem, indices in share.items():
                for index in indices:
                    writer.add(completion(problem, index))
    assert shares == [{"a": (0, 2, 3)}, {"b": (0, 1, 2)}, {"b": (3,)}]


def test_a_writer_whose_claim_is_void_stores_no_more(tmp_path):
    mine = Claims(tmp_path)
    mine.require()  # not yet one of the writers
    with mine.registered():
        mine.require()
        for file in (tmp_path / "claims").glob(f"{mine.token}.*"):
            file.unlink()  # as another host's writer does, which heard nothing for long
        with pytest.raises(StoreError, match="was taken over"):
            mine.require()
