"""A head that falls silent is waited for, and given up in the end."""

import socket

import pytest
from free_port import free_port

from sage_cli.errors import ExecutorError
from sage_cli.trials.executors import ray_head
from sage_cli.trials.executors.ray_head import RayHead


@pytest.fixture
def port():
    return free_port()


def test_a_head_that_comes_back_in_time_is_not_lost(port):
    with socket.create_server(("127.0.0.1", port)):
        head = RayHead(f"127.0.0.1:{port}")
        assert head.answers()
    assert not head.answers()
    assert not head.reached()
    with socket.create_server(("127.0.0.1", port)):
        assert head.reached()
        assert head.answers()


def test_a_head_that_stays_away_is_gone(port, monkeypatch):
    head = RayHead(f"127.0.0.1:{port}")
    assert not head.answers()
    monkeypatch.setattr(ray_head, "AWAY_S", 0.0)
    with pytest.raises(ExecutorError, match=rf"cluster at 127.0.0.1:{port} is gone") as lost:
        head.answers()
    assert "--executor" in lost.value.next_step
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert RayHead(f"ray://127.0.0.1:{server.getsockname()[1]}").reached()
