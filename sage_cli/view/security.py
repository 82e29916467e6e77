"""Who may see the page, and what the page may do.

A server on this machine can be reached by every program and, through names that lead here, by every
page of the browser. So each request needs the right host name and a cookie, which the address
with the token sets. Nothing that is not a file of the page is run, whatever a completion holds.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

LOCAL = ("127.0.0.1", "localhost", "[::1]")
ANYWHERE = ("0.0.0.0", "::", "")
"""Hosts to bind at which no one name is the right one."""
WRITES = "x-sage-view"
"""A header that no form and no link can send; what computes requires it."""
PLOT_STYLE = (
    ":where(.plot-d6a7b5) {\n  --plot-background: white;\n  display: block;\n  height: auto;\n"
    "  height: intrinsic;\n  max-width: 100%;\n}\n:where(.plot-d6a7b5 text),\n"
    ":where(.plot-d6a7b5 tspan) {\n  white-space: pre;\n}"
)

Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True)
class Access:
    """The token of a server at `host` and `port`."""

    host: str
    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))

    @property
    def address(self) -> str:
        """Return the address to open."""
        host = "127.0.0.1" if self.host in ANYWHERE else self.host
        shown = f"[{host}]" if ":" in host else host
        return f"http://{shown}:{self.port}/?{urlencode({'token': self.token})}"

    @property
    def cookie(self) -> str:
        """Return the cookie's name: browsers do not tell ports of a host apart."""
        return f"sage-view-{self.port}"

    def knows(self, host: str | None) -> bool:
        """Return True for a Host header under which this server may be asked."""
        if self.host in ANYWHERE:
            return True
        name, _, port = (host or "").rpartition(":")
        names = {*LOCAL, self.host, f"[{self.host}]"}
        return name.lower() in names and port == str(self.port)

    def admits(self, request: Request) -> bool:
        """Return True if a request has the cookie or the token."""
        given = request.cookies.get(self.cookie, "")
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        offered = (given, bearer if scheme.lower() == "bearer" else "")
        return any(hmac.compare_digest(one.encode(), self.token.encode()) for one in offered)

    def entry(self, request: Request) -> Response | None:
        """Return the way in for the address with the token: a cookie, then the page without it."""
        given = request.query_params.get("token")
        if given is None or not hmac.compare_digest(given.encode(), self.token.encode()):
            return None
        response = RedirectResponse(request.url.path, status_code=303)
        response.set_cookie(self.cookie, self.token, httponly=True, samesite="strict", path="/")
        return response


async def guarded(access: Access, request: Request, handle: Handler) -> Response:
    """Answer a request that may be answered, and say in every answer what the page may do."""
    if not access.knows(request.headers.get("host")):
        response: Response = PlainTextResponse("this server has another name\n", 421)
    elif (entry := access.entry(request)) is not None:
        response = entry
    elif not access.admits(request):
        said = "open the address with its token, as `sage view` printed it\n"
        response = PlainTextResponse(said, 403)
    elif request.method not in ("GET", "HEAD") and request.headers.get(WRITES) != "1":
        response = PlainTextResponse("only the page may ask for this\n", 403)
    else:
        response = await handle(request)
    response.headers.update(HEADERS)
    return response


def hash_of(text: str) -> str:
    """Return a text as a content security policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


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
