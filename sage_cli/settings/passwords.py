"""Passwords of servers: in the environment alone, and in no address that is typed or kept."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any

from sage_cli.errors import ConfigurationError

VARIABLE = "SAGE_PASSWORDS"
"""A JSON object: the address of a server, without a password -> its password."""
_ADDRESS = r"[a-zA-Z][\w+.-]{0,40}://"
"""The scheme has a bound, or a long word without an address would take the square of its length."""
_OF_QUERY = re.compile(
    r"""(?<=[?&])(password|passwd|sslpassword|api[_-]?key|(?:\w+[_-])?token|secret|key)"""
    r"""=([^&\s"']*)&?""",
    re.IGNORECASE,
)
_NAME = re.compile(r"(^|_)(api_?key|passwd|password|secret|(hf|auth|access)_token|credentials?)$")


def _users(letter: str, after_port: str) -> re.Pattern[str]:
    """User and password in front of a host. `:8000/` is a port, which `after_port` ends.

    A password ends at the last @ before another address, as in a list of them.
    """
    return re.compile(
        rf"""({_ADDRESS}[^\s:/?#@"'\[\]]*):(?!\d+(?:{after_port}|$))(?!\s)"""
        rf"""((?:(?!["'\s,]+{_ADDRESS}){letter})*)@"""
    )


_IN_WORD, _IN_TEXT = _users(".", "[/?#\"']"), _users(r"\S", r"[/?#\"'\],;)\s]")


def without_passwords(text: str) -> str:
    """Return a message with no password in any address that stands in it."""
    return _OF_QUERY.sub("", _IN_TEXT.sub(r"\1@", text))


def word_without_passwords(word: str) -> str:
    """Return a word of a command line, or a setting's value, with no password in its addresses."""
    return _OF_QUERY.sub("", _IN_WORD.sub(r"\1@", word))


def require_no_secrets(values: Any) -> None:
    """Raise ConfigurationError for a password or key in settings, which are recorded in files.

    `values` may be nested; the error doesn't contain the secret.
    """
    if isinstance(values, Mapping):
        for name, value in values.items():
            if isinstance(value, str) and value and _NAME.search(str(name)):
                raise ConfigurationError(
                    f"'{name}' has the name of a secret, and settings are recorded in files",
                    "give it to its library in the environment, for example HF_TOKEN "
                    "or WANDB_API_KEY",
                )
            require_no_secrets(value)
    elif isinstance(values, list | tuple):
        for value in values:
            require_no_secrets(value)
    elif isinstance(values, str) and "://" in values:
        _require_no_secrets_in(values)


def password_of(address: str) -> str | None:
    """Return the password of a server's address, as the environment has it; None without one.

    Raises ConfigurationError where $SAGE_PASSWORDS is not what it should be.
    """
    try:
        passwords = json.loads(os.environ.get(VARIABLE) or "{}")
    except ValueError:
        passwords = None
    if not isinstance(passwords, dict):
        raise ConfigurationError(
            f"${VARIABLE} is not a JSON object",
            'write it as {"http://ann@host:8000": "password"}, or leave it out',
        )
    password = passwords.get(address)
    return None if password is None else str(password)


def _require_no_secrets_in(address: str) -> None:
    without = word_without_passwords(address)
    if without == address:
        return
    if _OF_QUERY.search(address):
        raise ConfigurationError(
            f"the address {without.rstrip('?&')} was given with a key, and settings are recorded "
            "in files",
            "leave it out there, and give it in the environment, as SAGE_SERVER_API_KEY",
        )
    raise ConfigurationError(
        f"the address {without} was given with a password, and settings are recorded in files",
        f"leave it out there, and give it in the environment: "
        f"export {VARIABLE}='{json.dumps({without: 'PASSWORD'})}'",
    )
