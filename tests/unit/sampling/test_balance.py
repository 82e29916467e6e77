"""Choosing among servers."""

from __future__ import annotations

from contextlib import ExitStack

from sage_cli.sampling.balance import REST_S, Balance


def test_requests_go_to_the_least_busy_server() -> None:
    balance = Balance(["a", "b", "c"])
    with ExitStack() as stack:
        opened = [stack.enter_context(balance.chosen()) for _ in range(6)]
        assert sorted(opened) == ["a", "a", "b", "b", "c", "c"]
        with balance.chosen() as seventh:
            pass
        with balance.chosen() as eighth:
            assert eighth == seventh


def test_a_server_that_failed_rests_and_comes_back() -> None:
    now_s = 100.0
    balance = Balance(["a", "b"], clock=lambda: now_s)
    balance.failed("a")
    with ExitStack() as stack:
        assert {stack.enter_context(balance.chosen()) for _ in range(5)} == {"b"}
        now_s += REST_S
        with balance.chosen() as server:
            assert server == "a"


def test_when_all_have_failed_the_first_to_recover_is_asked() -> None:
    now_s = 0.0
    balance = Balance(["a", "b"], clock=lambda: now_s)
    balance.failed("b")
    now_s = 1.0
    balance.failed("a")
    with balance.chosen() as server:
        assert server == "b"
