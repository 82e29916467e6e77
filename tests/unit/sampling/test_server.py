"""Choosing among servers."""

from contextlib import ExitStack

import pytest

from sage_cli.errors import ConfigurationError
from sage_cli.sampling.server import REST_S, Balance
from sage_cli.sampling.server_api import Login


def test_a_key_that_is_typed_in_an_address_is_refused_and_not_printed(monkeypatch):
    monkeypatch.setenv("SAGE_PASSWORDS", "")
    for address in ("http://h:8000/v1?api_key=s3cret", "http://h?a=b&token=s3cret"):
        with pytest.raises(ConfigurationError) as refused:
            Login.parse(address)
        assert "s3cret" not in refused.value.cause
        assert "SAGE_SERVER_API_KEY" in str(refused.value.next_step)


def test_the_least_busy_server_is_asked_and_a_failed_one_rests():
    balance = Balance(["a", "b", "c"])
    with ExitStack() as stack:
        opened = [stack.enter_context(balance.chosen()) for _ in range(6)]
        assert sorted(opened) == ["a", "a", "b", "b", "c", "c"]
        with balance.chosen() as seventh:
            pass
        with balance.chosen() as eighth:
            assert eighth == seventh
    now_s = 100.0
    balance = Balance(["a", "b"], clock=lambda: now_s)
    balance.failed("a")
    with ExitStack() as stack:
        assert {stack.enter_context(balance.chosen()) for _ in range(5)} == {"b"}
        now_s += REST_S
        with balance.chosen() as server:
            assert server == "a"
    now_s = 0.0
    balance = Balance(["a", "b"], clock=lambda: now_s)
    balance.failed("b")
    now_s = 1.0
    balance.failed("a")
    with balance.chosen() as server:
        assert server == "b"


def test_how_long_all_servers_have_asked_to_be_left_alone():
    now_s = 0.0
    balance = Balance(["a", "b"], clock=lambda: now_s)
    balance.failed("a", asked_s=8.0)
    assert not balance.all_rest()
    assert balance.asked_s() == 0.0  # b may be asked
    balance.failed("b", asked_s=3.0)
    assert balance.all_rest()
    assert balance.asked_s() == 3.0
    now_s = 4.0
    assert balance.all_rest()  # b's failure is only four seconds old
    assert balance.asked_s() == 0.0
    now_s = REST_S
    assert not balance.all_rest()
