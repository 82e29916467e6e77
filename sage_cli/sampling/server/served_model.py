"""The model that a server serves, compared with the intended one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from sage_cli.errors import SamplingError
from sage_cli.json_value import json_value
from sage_cli.sampling.server.http import (
    LIST_BYTES,
    Answer,
    Login,
    ServerHttp,
    UnusableAnswerError,
)


def served_model(
    http: ServerHttp,
    login: Login,
    meant: str,
    named: str | None,
    setting: str = "sampling.server_model",
) -> str:
    """Return a server's name of the intended model `meant`, a folder or a name of the Hub.

    Raises SamplingError for a server that does not list it, unless the user has given the server's
    name of the model (`named`) in `setting`.
    """
    server = login.address
    try:
        answer = http.ask(login, "/v1/models", LIST_BYTES)
    except (httpx.RequestError, UnusableAnswerError) as error:
        raise SamplingError(
            f"{server} didn't answer: {error or type(error).__name__}", "start it, or name another"
        ) from error
    models = _listed(answer)
    names = [str(model["id"]) for model in models]
    if named is not None:
        if names and named not in names:
            raise SamplingError(
                f"{server} serves {', '.join(names)}, and not '{named}'",
                f"name one of those with --set {setting}=NAME",
            )
        return named
    for model in models:
        if any(_same(str(model.get(key)), meant) for key in ("id", "root")):
            return str(model["id"])
    tells = f"serves {', '.join(names)}" if names else "doesn't say which model it serves"
    raise SamplingError(
        f"{server} {tells}, and {meant} is meant",
        "serve that one; or, to take what is served under a name of its own, say so with "
        f"--set {setting}={names[0] if names else 'NAME'}",
    )


def _listed(answer: Answer) -> list[dict[str, Any]]:
    """Return the models in a server's list; none if it has no list or a malformed one."""
    try:
        listed = json_value(answer.content)["data"] if 200 <= answer.status < 300 else []
    except (ValueError, LookupError, TypeError):
        return []
    models = listed if isinstance(listed, list) else []
    return [model for model in models if isinstance(model, dict) and "id" in model]


def _same(told: str, meant: str) -> bool:
    """Return True if two names are equal or lead to one folder of this machine."""
    return told == meant or (Path(meant).is_dir() and Path(told).resolve() == Path(meant).resolve())
