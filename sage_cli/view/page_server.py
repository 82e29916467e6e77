"""The server of `sage view`: the page's files and answers as JSON, and who may see them.

A server on this machine can be reached by every program and, through names that lead here, by every
page of the browser. So each request needs the right host name and a cookie, which the address
with the token sets, once. Nothing that is not a file of the page is run, whatever a completion
holds.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import resource
import secrets
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar
from urllib.parse import urlencode

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from sage_cli.errors import ConfigurationError, SageError
from sage_cli.store.json_files import compact_json
from sage_cli.view.api import Api
from sage_cli.view.page_file import FILES, PAGE, hash_of

HOST = "127.0.0.1"
WRITES = "x-sage-view"
"""A header that no form and no link can send; what computes requires it."""
PLOT_STYLE = (
    ":where(.plot-d6a7b5) {\n  --plot-background: white;\n  display: block;\n  height: auto;\n"
    "  height: intrinsic;\n  max-width: 100%;\n}\n:where(.plot-d6a7b5 text),\n"
    ":where(.plot-d6a7b5 tspan) {\n  white-space: pre;\n}"
)

Handler = Callable[[Request], Awaitable[Response]]
HEADERS = {
    "Content-Security-Policy": "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            f"style-src 'self' {hash_of(PLOT_STYLE)}",
            "img-src 'self' data: blob:",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of every answer. The style with a hash is the chart library's own."""
log = logging.getLogger(__name__)
DEFAULT_PORT, MOST_CLIENTS = 7243, 1024
"""The port if it is free, and how many clients wait in the kernel until they are accepted."""
DEFERRED_S, DROPPED_AT_ONCE = 1, 256
"""How long the kernel keeps a silent connection to itself, and how many closed ones are dropped
between two looks at other events."""
FIRST_REQUEST_S, MOST_OPEN = 5.0, 4096
"""How long a connection may be open without a whole request, and how many files are, if allowed."""


@dataclass
class Access:
    """Who may see the server at `port`: the first with `token`, then whoever has `key`.

    The key is the cookie that the token is exchanged for, or a bearer token of a program.
    """

    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    key: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    used: bool = False

    @property
    def address(self) -> str:
        """Return the address to open."""
        return f"http://{HOST}:{self.port}/?{urlencode({'token': self.token})}"

    def invite(self) -> None:
        """Create another token, which admits one more browser."""
        self.token, self.used = secrets.token_urlsafe(24), False

    @property
    def cookie(self) -> str:
        """Return the cookie's name: browsers do not tell ports of a host apart."""
        return f"sage-view-{self.port}"

    def knows(self, host: str | None) -> bool:
        """Return True for a Host header under which this server may be asked."""
        return (host or "").lower() in (f"{HOST}:{self.port}", f"localhost:{self.port}")

    def admits(self, request: Request) -> bool:
        """Return True if a request has the key."""
        given = request.cookies.get(self.cookie, "")
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        offered = (given, bearer if scheme.lower() == "bearer" else "")
        return any(hmac.compare_digest(secret.encode(), self.key.encode()) for secret in offered)

    def enters(self, request: Request) -> bool:
        """Return True for the first request of the page with the token, which is used up by it."""
        given = request.query_params.get("token", "")
        is_page = request.method == "GET" and request.url.path == "/"
        if self.used or not (is_page and hmac.compare_digest(given.encode(), self.token.encode())):
            return False
        self.used = True
        return True


async def guarded(access: Access, request: Request, handle: Handler) -> Response:
    """Answer a request that may be answered, and say in every answer what the page may do."""
    if not access.knows(request.headers.get("host")):
        response: Response = PlainTextResponse("this server has another name\n", 421)
    elif access.enters(request):
        response = await handle(request)
        response.set_cookie(access.cookie, access.key, httponly=True, samesite="strict", path="/")
    elif not access.admits(request):
        message = (
            "open the address with its token, which `sage view` printed; it admits one browser, "
            "once: press Enter where `sage view` runs, and it prints an address for another one\n"
        )
        response = PlainTextResponse(message, 403, {"Connection": "close"})
    elif request.method not in ("GET", "HEAD") and request.headers.get(WRITES) != "1":
        response = PlainTextResponse("only the page may ask for this\n", 403)
    else:
        response = await handle(request)
    response.headers.update(HEADERS)
    return response


def application(root: Path, access: Access) -> Starlette:
    """Return the application that shows what is stored below `root` to whoever has the token."""
    api = Api(root)

    async def answer(request: Request) -> Response:
        name, values = request.path_params["name"], dict(request.query_params)
        if request.method != "POST":
            values.pop("compute", None)  # only a request that no link can make may compute
        return await run_in_threadpool(_answer, api, name, values, request)

    async def page(request: Request) -> Response:
        name = request.path_params.get("file", "index.html")
        return FileResponse(PAGE / name) if name in FILES else _no_such(name)

    app = Starlette(
        routes=[
            Route("/", page),
            Route("/api/{name}", answer, methods=["GET", "POST"]),
            Route("/{file:path}", page),
        ]
    )
    Thread(target=api.runs.all, daemon=True).start()  # while the browser opens
    app.add_middleware(GZipMiddleware, minimum_size=2_000, compresslevel=3)
    app.add_middleware(BaseHTTPMiddleware, dispatch=lambda r, call: guarded(access, r, call))
    return app


def _answer(api: Api, name: str, values: Mapping[str, str], request: Request) -> Response:
    """Return an answer as JSON; 304 if the page has it already."""
    status = 200
    try:
        content = api.encoded(name, values)
    except KeyError as error:
        if error.args != (name,):
            raise
        return _no_such(f"api/{name}")
    except SageError as error:
        status, content = 422, _error(error.cause, error.next_step)
    except OSError as error:
        content = _error(f"a file can't be read: {error}", "it may have been removed; look again")
        status = 422
    tag = f'"{hashlib.blake2b(content, digest_size=12).hexdigest()}"'
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={"ETag": tag})
    return Response(content, status, {"ETag": tag}, "application/json")


def _error(cause: str, next_step: str | None) -> bytes:
    return compact_json(
        {"error": {"cause": cause, "next_step": next_step, "exit_code": 2}}
    ).encode()


def _no_such(name: str) -> Response:
    return PlainTextResponse(f"there is nothing at /{name[:80]}\n", 404)


class Listening(socket.socket):
    """A listening socket that hands on no connection which was closed before it said anything.

    A program of this machine that opens and closes connections without pause makes more of them
    than asyncio can handle, and locks the browser out. To drop one takes a fiftieth of that.
    """

    def accept(self) -> tuple[socket.socket, Any]:
        """Return the next connection. Raises BlockingIOError if there is none for now."""
        for _ in range(DROPPED_AT_ONCE):
            connection, address = super().accept()
            try:
                if connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT):
                    return connection, address
            except BlockingIOError:  # it is open, and says nothing yet
                return connection, address
            except OSError:  # it was reset
                pass
            connection.close()
        raise BlockingIOError  # others have their turn


def bound(port: int | None) -> Listening:
    """Return a socket that listens on this machine; without a port, at 7243 or any free one.

    Raises ConfigurationError for a port that is taken.
    """
    for number in (port,) if port is not None else (DEFAULT_PORT, 0):
        # named, or asyncio leaves Nagle on: each answer would wait for a delayed acknowledgement
        listening = Listening(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_DEFER_ACCEPT"):  # Linux keeps a connection until it says something
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, DEFERRED_S)
        try:
            listening.bind((HOST, number))
            listening.listen(MOST_CLIENTS)
        except OverflowError:
            listening.close()
            raise ConfigurationError(f"there is no port {number}", "ports end at 65535") from None
        except OSError as error:
            listening.close()
            if port is None and number == DEFAULT_PORT:
                continue
            raise ConfigurationError(
                f"{HOST}:{number} can't be bound: {error.strerror or error}",
                "choose another port with --port, or leave it out to use a free one",
            ) from None
        return listening
    raise AssertionError("port 0 is always free")


class Impatient(H11Protocol):
    """Closes connections without a whole request: late ones, and the oldest of too many.

    Otherwise whoever opens as many as there are file descriptors would lock everybody else out.
    Many clients that come at once are all accepted before the first of them is read: they wait.
    """

    waiting: ClassVar[dict[Impatient, None]] = {}
    most_waiting: ClassVar[int] = 64

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self.waiting[self] = None
        self.loop.call_later(FIRST_REQUEST_S, self._give_up)
        if len(self.waiting) > self.most_waiting:
            next(iter(self.waiting))._give_up()

    def _give_up(self) -> None:
        if self in self.waiting:
            del self.waiting[self]
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Stop waiting once a request has come."""
        super().data_received(data)
        if self.cycle is not None:
            self.waiting.pop(self, None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self.waiting.pop(self, None)
        super().connection_lost(exc)


def serve(app: Starlette, listening: socket.socket) -> None:
    """Answer requests until the process is interrupted."""
    # half of the files that may be open are for answers
    Impatient.most_waiting = _files_at_most() // 2
    settings: Any = uvicorn.Config(
        app,
        http=Impatient,
        loop="asyncio",  # whose servers accept by the socket's own method
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=1,
    )
    uvicorn.Server(settings).run(sockets=[listening])


def _files_at_most() -> int:
    """Return how many files this process may have open, after the limit was raised to MOST_OPEN."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = MOST_OPEN if hard == resource.RLIM_INFINITY else min(hard, MOST_OPEN)
    if soft < allowed:
        with suppress(OSError, ValueError):  # some systems allow less than they say
            resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
            return allowed
    return min(soft, MOST_OPEN)
