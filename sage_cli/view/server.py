"""The server of `sage view`: the page's files, and answers as JSON."""

from __future__ import annotations

import hashlib
import logging
import socket
from collections.abc import Mapping
from pathlib import Path
from threading import Thread
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route

from sage_cli.errors import ConfigurationError, SageError
from sage_cli.store.json_files import compact_json
from sage_cli.view.api import Api
from sage_cli.view.assets import FILES, file_of
from sage_cli.view.security import Access, guarded

log = logging.getLogger(__name__)


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
        return FileResponse(file_of(name)) if name in FILES else _no_such(name)

    app = Starlette(
        routes=[
            Route("/", page),
            Route("/api/{name}", answer, methods=["GET", "POST"]),
            Route("/{file:path}", page),
        ]
    )
    Thread(target=api.answer, args=("runs", {}), daemon=True).start()  # while the browser opens
    app.add_middleware(GZipMiddleware, minimum_size=2_000, compresslevel=3)
    app.add_middleware(BaseHTTPMiddleware, dispatch=lambda r, call: guarded(access, r, call))
    return app


def _answer(api: Api, name: str, values: Mapping[str, str], request: Request) -> Response:
    """Return an answer as JSON; 304 if the page has it already."""
    status = 200
    try:
        content = compact_json(api.answer(name, values)).encode()
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


def bound(host: str, port: int | None) -> socket.socket:
    """Return a listening socket; without a port, at 7243 or else at any free one.

    Raises ConfigurationError for a port that is taken, and for a host that is not this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for wanted in (port,) if port is not None else (DEFAULT_PORT, 0):
        # named, or asyncio leaves Nagle on: each answer would wait for a delayed acknowledgement
        found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind((host, wanted))
            found.listen(128)
        except OverflowError:
            found.close()
            raise ConfigurationError(f"there is no port {wanted}", "ports end at 65535") from None
        except OSError as error:
            found.close()
            if port is None and wanted == DEFAULT_PORT:
                continue
            raise ConfigurationError(
                f"{host}:{wanted} can't be bound: {error.strerror or error}",
                "name another port with --port, or leave it out: a free one is taken",
            ) from None
        return found
    raise AssertionError("port 0 is always free")


DEFAULT_PORT = 7243


def serve(app: Starlette, listening: socket.socket) -> None:
    """Answer requests until the process is interrupted."""
    settings: Any = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=1,
    )
    uvicorn.Server(settings).run(sockets=[listening])
