"""Passwords in addresses of databases and servers: in the environment, and in nothing that is kept.

An address that is typed as `scheme://user:password@host` loses its password before anything is made
of it. The environment keeps the password for this process and those that it starts.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from sage_cli.errors import ConfigurationError

VARIABLE = "SAGE_PASSWORDS"
"""A JSON object: an address without its password -> what is secret of it, by name."""
_ADDRESS = r"[a-zA-Z][\w+.-]{0,40}://"
"""The scheme has a bound, or a long word without an address would take the square of its length."""


def _users(letter: str, after_port: str) -> re.Pattern[str]:
    """User and password in front of a host. `:8000/` is a port, which `after_port` ends.

    A password ends at the last @ before another address, as in a list of them.
    """
    return re.compile(
        rf"""({_ADDRESS}[^\s:/?#@"'\[\]]*):(?!\d+(?:{after_port}|$))(?!\s)"""
        rf"""((?:(?!["'\s,]+{_ADDRESS}){letter})*)@"""
    )


_IN_WORD, _IN_TEXT = _users(".", "[/?#\"']"), _users(r"\S", r"[/?#\"'\],;)\s]")
_OF_QUERY = re.compile(
    r"""(?<=[?&])(password|passwd|sslpassword|api[_-]?key|(?:\w+[_-])?token|secret|key)"""
    r"""=([^&\s"']*)&?""",
    re.IGNORECASE,
)
_NAME = re.compile(r"(^|_)(api_?key|passwd|password|secret|(hf|auth|access)_token|credentials?)$")


def without_passwords(text: str) -> str:
    """Return a message with no password in any address that stands in it."""
    return _OF_QUERY.sub("", _IN_TEXT.sub(r"\1@", text))


def word_without_passwords(word: str) -> str:
    """Return a word of a command line, or a setting's value, with no password in its addresses."""
    return _OF_QUERY.sub("", _IN_WORD.sub(r"\1@", word))


def taken(values: Any) -> Any:
    """Return settings whose addresses have no passwords; the environment keeps those from now on.

    `values` may be nested. Raises ConfigurationError for a setting that is called a secret:
    settings are recorded.
    """
    if isinstance(values, Mapping):
        for name, value in values.items():
            if isinstance(value, str) and value and _NAME.search(str(name)):
                raise ConfigurationError(
                    f"'{name}' has the name of a secret, and settings are recorded in files",
                    "give it to its library in the environment, for example HF_TOKEN "
                    "or WANDB_API_KEY",
                )
        return {name: taken(value) for name, value in values.items()}
    if isinstance(values, list | tuple):
        return type(values)(map(taken, values))
    return _address(values) if isinstance(values, str) and "://" in values else values


def secrets_of(address: str) -> dict[str, str]:
    """Return what is secret of an address without password, such as `{"password": ...}`; mostly
    nothing.

    Raises ConfigurationError where $SAGE_PASSWORDS is not what it should be.
    """
    secrets = _known().get(address, {})
    return {"password": secrets} if isinstance(secrets, str) else dict(secrets)


def _address(typed: str) -> str:
    secrets = {name: unquote(value) for name, value in _OF_QUERY.findall(typed)}
    if user := _IN_WORD.match(typed):
        secrets["password"] = unquote(user[2])
    address = word_without_passwords(typed)
    if secrets:
        os.environ[VARIABLE] = json.dumps({**_known(), address: secrets})
    return address


def _known() -> dict[str, Any]:
    try:
        secrets = json.loads(os.environ.get(VARIABLE) or "{}")
    except ValueError:
        secrets = None
    if not isinstance(secrets, dict):
        raise ConfigurationError(
            f"${VARIABLE} is not a JSON object",
            'write it as {"postgresql://ann@host/name": "password"}, or leave it out',
        )
    return secrets
