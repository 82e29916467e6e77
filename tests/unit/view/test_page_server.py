"""The server: who is let in, what it says, and what it never serves or writes."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from http.client import HTTPConnection
from pathlib import Path

import pytest
from free_port import free_port
from starlette.testclient import TestClient

from sage_cli.errors import ConfigurationError
from sage_cli.view import page_server
from sage_cli.view.page_server import DEFAULT_PORT, FILES, PAGE, WRITES, Access, application, bound

ACCESS = (7000, "the-token", "the-key")
HERE = "http://127.0.0.1:7000"


@pytest.fixture
def stranger(shown):
    """A client without the cookie."""
    return TestClient(application(shown, Access(*ACCESS)), base_url=HERE)


@pytest.fixture
def client(stranger):
    """A client that has opened the address with the token."""
    stranger.get("/?token=the-token")
    return stranger


def test_the_token_becomes_a_cookie_and_admits_once(stranger):
    entered = stranger.get("/?token=the-token", follow_redirects=False)
    assert entered.status_code == 200
    cookie = entered.headers["set-cookie"]
    assert cookie.startswith("sage-view-7000=the-key")
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert stranger.get("/").status_code == 200
    assert stranger.get("/?token=the-token").status_code == 200  # the same browser again
    stranger.cookies.clear()
    refused = stranger.get("/?token=the-token")
    assert (refused.status_code, refused.headers["connection"]) == (403, "close")
    assert "set-cookie" not in refused.headers


@pytest.mark.parametrize("where", ["//evil.example/", "/\\evil.example", "/api/runs", "/main.js"])
def test_the_token_admits_to_the_page_alone(stranger, where):
    refused = stranger.get(f"{HERE}{where}?token=the-token", follow_redirects=False)
    assert refused.status_code in (403, 404)
    assert not {"location", "set-cookie"} & {name.lower() for name in refused.headers}
    assert stranger.head("/?token=the-token").status_code == 403  # as a preview of a link asks
    assert stranger.get("/?token=the-token").status_code == 200  # it isn't used up


def test_another_token_admits_another_browser(shown):
    access = Access(*ACCESS)
    app = application(shown, access)
    first, second, third = (TestClient(app, base_url=HERE) for _ in range(3))
    assert first.get("/?token=the-token").status_code == 200
    access.invite()
    assert f"{HERE}/?token={access.token}" == access.address
    assert second.get("/?token=the-token").status_code == 403  # the earlier one is used up
    assert second.get(f"/?token={access.token}").status_code == 200
    assert (first.get("/").status_code, second.get("/").status_code) == (200, 200)
    assert third.get(f"/?token={access.token}").status_code == 403


SERVER = """
import resource, socket, sys
from pathlib import Path
from sage_cli.view import page_server
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[2]), int(sys.argv[2])))
listening = page_server.bound(None)
print(listening.getsockname()[1], flush=True)
access = page_server.Access(listening.getsockname()[1], "the-token")
page_server.serve(page_server.application(Path(sys.argv[1]), access), listening)
"""


def serving(shown, files):
    """A server that may have so many files open, and its port."""
    words = [sys.executable, "-c", SERVER, str(shown), str(files)]
    server = subprocess.Popen(words, stdout=subprocess.PIPE)
    assert server.stdout is not None
    return server, int(server.stdout.readline())


def test_three_hundred_clients_at_once_are_all_answered(shown):
    server, port = serving(shown, files=1024)
    asked = f"GET /api/runs HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n"
    clients = []
    try:
        os.kill(server.pid, signal.SIGSTOP)  # so that all have come before the first is read
        for _ in range(300):
            clients.append(socket.create_connection(("127.0.0.1", port), timeout=60))
            clients[-1].sendall(asked.encode())
        os.kill(server.pid, signal.SIGCONT)
        answers = {client.recv(12) for client in clients}
        assert answers == {b"HTTP/1.1 403"}  # they have no key
    finally:
        server.kill()
        server.wait()
        for client in clients:
            client.close()


def test_connections_that_are_closed_before_they_say_anything_are_dropped(monkeypatch):
    """A program that opens and closes them without pause would otherwise lock the browser out."""
    with bound(None) as listening:
        listening.setblocking(False)
        address = listening.getsockname()
        for _ in range(50):
            socket.create_connection(address).close()
        with socket.create_connection(address) as browser:
            browser.sendall(b"GET")
            time.sleep(0.1)  # until the kernel has it
            accepted, _ = listening.accept()
            with accepted:
                assert accepted.recv(3) == b"GET"
            with pytest.raises(BlockingIOError):
                listening.accept()
        monkeypatch.setattr(page_server, "DROPPED_AT_ONCE", 3)
        for _ in range(9):
            socket.create_connection(address).close()
        with socket.create_connection(address) as browser:
            browser.sendall(b"GET")
            time.sleep(0.1)
            for _ in range(3):  # three times three are dropped; then others have their turn
                with pytest.raises(BlockingIOError):
                    listening.accept()
            listening.accept()[0].close()


def test_idle_connections_of_others_lock_nobody_out(shown):
    server, port = serving(shown, files=256)
    idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(300)]
    try:
        idle[0].sendall(b"GET / HTTP/1.1\r\n")  # nor does half a request
        for path, status in (("/?token=the-token", 200), ("/", 403)):
            owner = HTTPConnection("127.0.0.1", port, timeout=30)
            owner.request("GET", path)
            assert owner.getresponse().status == status
            owner.close()
    finally:
        server.kill()
        server.wait()
        for connection in idle:
            connection.close()


@pytest.mark.parametrize("where", ["/", "/api/runs", "/main.js", "/?token=another", "/?token=é"])
def test_without_the_token_nothing_is_told(stranger, where):
    refused = stranger.get(where)
    assert refused.status_code == 403
    assert "sft-arithmetic" not in refused.text


def test_a_program_may_send_the_token_in_a_header(stranger):
    told = stranger.get("/api/runs", headers={"Authorization": "Bearer the-key"})
    assert told.status_code == 200
    used = stranger.get("/api/runs", headers={"Authorization": "Bearer the-token"})
    assert used.status_code == 403
    assert stranger.get("/api/runs", headers={"Authorization": "Bearer no"}).status_code == 403


@pytest.mark.parametrize(
    "host", ["evil.example:7000", "127.0.0.1:7001", "127.0.0.1", "127.0.0.1.evil.example:7000"]
)
def test_another_name_of_the_host_is_refused(client, host):
    assert client.get("/api/runs", headers={"Host": host}).status_code == 421


@pytest.mark.parametrize("host", ["127.0.0.1:7000", "localhost:7000", "LOCALHOST:7000"])
def test_names_of_this_machine_are_its_own(host):
    assert Access(*ACCESS).knows(host)


def test_answers_are_sent_once_with_what_the_page_may_do(client):
    for where in ("/", "/api/runs", "/api/nothing", "/nothing"):
        policy = client.get(where).headers["content-security-policy"]
        scripts = next(one for one in policy.split("; ") if one.startswith("script-src"))
        assert scripts == "script-src 'self'"
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
    assert client.get("/pages/run.js").status_code == 200
    for where in ("/../security.py", "/%2e%2e/security.py", "//etc/passwd", "/pages"):
        assert client.get(where).status_code == 404, where
    tag = client.get("/api/runs").headers["etag"]
    again = client.get("/api/runs", headers={"If-None-Match": tag})
    assert again.status_code == 304
    assert not again.content
    wrong = client.get("/api/samples", params={"policy": "rl-dapo-cccccccc", "longest": "-1"})
    assert wrong.status_code == 422
    assert "longest is '-1'" in wrong.json()["error"]["cause"]
    policy = "rl-dapo-cccccccc"
    problem = client.get("/api/problems", params={"policies": policy}).json()["problems"][0]
    asked = {"policy": policy, "problem": problem["problem"], "seed": "0", "index": "0"}
    compute = {**asked, "compute": "1"}
    assert client.post("/api/tokens", params=compute).status_code == 403  # as a form would ask
    assert client.get("/api/tokens", params=compute).json()["tokens"] is None  # as a link would
    assert WRITES == "x-sage-view"


@pytest.mark.parametrize("id_", ["../runs/x", "..", ".", "", "a/b", "a\0b", ".staged", "/etc"])
def test_a_name_is_one_part_of_a_path(client, id_):
    for name in ("run", "sweep", "suite"):
        answer = client.get(f"/api/{name}", params={name: id_})
        assert answer.status_code == 422, (name, id_)
        assert set(answer.json()["error"]) == {"cause", "next_step", "exit_code"}


def test_looking_writes_nothing(client, shown):
    before = files(shown)
    both = "sft-arithmetic-aaaaaaaa,rl-dapo-branch-bbbbbbbb"
    for name, values in {
        "runs": {},
        "run": {"run": "rl-dapo-cccccccc"},
        "passk": {"policies": both},
        "problems": {"policies": both},
        "samples": {"policy": "rl-dapo-cccccccc", "text": "1"},
        "sweeps": {},
        "suites": {},
        "sweep": {"sweep": "tau-rho-12345678"},
        "suite": {"suite": "demo-12345678"},
        "ledger": {"run": "rl-dapo-cccccccc"},
    }.items():
        assert client.get(f"/api/{name}", params=values).status_code == 200, name
    assert files(shown) == before


def files(root):
    found = (Path(folder) / name for folder, _, names in os.walk(root) for name in names)
    return {str(one): (one.stat().st_size, one.stat().st_mtime_ns) for one in found}


def test_a_taken_port_is_named_and_every_module_fetched_at_once():
    with bound(free_port()) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"127.0.0.1:{port} can't be bound"):
            bound(port)
    page = (PAGE / "index.html").read_text()
    preloaded = re.findall(r'rel="modulepreload" href="([^"]+)"', page)
    scripts = re.findall(r'script src="([^"]+)"', page)
    modules = [name for name in FILES if name.endswith(".js") and name not in scripts]
    assert sorted(preloaded) == sorted(modules)


def test_without_a_port_a_free_one_is_taken_that_does_not_wait_for_acknowledgements():
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            other.bind(("127.0.0.1", DEFAULT_PORT))
            other.listen()
        except OSError:
            pass  # somebody has it already, which is as good
        with bound(None) as found:
            assert found.getsockname()[1] not in (0, DEFAULT_PORT)
    """asyncio turns Nagle off on connections of a socket that names TCP alone."""
    with bound(None) as found:
        assert found.proto == socket.IPPROTO_TCP
