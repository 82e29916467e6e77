"""Requests to servers that stumble: sent again elsewhere or later, given up by name."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

import httpx

from sage_cli.errors import SamplingError
from sage_cli.sampling.balance import Balance
from sage_cli.sampling.server_http import Answer, Login, ServerHttp, UnusableAnswerError

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
ATTEMPTS_AT_UNUSABLE = 3
"""An answer that is none may be a proxy's page of the moment, or what the server always says."""
API_KEY_VARIABLE = "SAGE_SERVER_API_KEY"
_TRY_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
_ABOUT_THE_PROMPT = frozenset({400, 413, 422})

Read = TypeVar("Read")


class _NoAnswerError(Exception):
    """A server gave no answer, and another attempt may get one; `rest_s` is how long it asks for.

    `unusable` where it answered what holds no completion.
    """

    def __init__(self, why: str, rest_s: float = 0.0, *, unusable: bool = False) -> None:
        super().__init__(why)
        self.rest_s, self.unusable = rest_s, unusable


class BadPromptError(Exception):
    """A server says that it can't answer this prompt, which is no matter of trying again."""


@dataclass(frozen=True)
class Patience:
    """How often a request is sent, and for how many seconds, before servers are given up."""

    attempts: int = 10
    total_s: float = 300.0


class ServerClient:
    """Sends requests to the least busy of several servers, whose logins are by address.

    An answer is read up to `most_bytes`.
    """

    def __init__(
        self,
        http: ServerHttp,
        logins: Mapping[str, Login],
        balance: Balance,
        patience: Patience,
        most_bytes: int,
    ) -> None:
        self._http, self._logins, self._most_bytes = http, logins, most_bytes
        self._balance, self._patience = balance, patience
        self._giving_up = threading.Event()

    def give_up(self) -> None:
        """Let every request that waits for another attempt fail now."""
        self._giving_up.set()

    def post(
        self, path: str, body_for: Callable[[str], dict[str, Any]], read: Callable[[Any], Read]
    ) -> Read:
        """What `read` makes of the JSON that a server answers to `body_for(server)`.

        `read` raises ValueError, LookupError or TypeError for what isn't an answer: that, like a
        server that is busy or gone, is tried again. Raises BadPromptError for a prompt that
        can't be answered, UnusableAnswerError where what is answered holds no completion,
        SamplingError when patience ends.
        """
        began, pause_s, attempt = time.monotonic(), FIRST_PAUSE_S, 1
        attempts = self._patience.attempts
        while True:
            if asked_s := self._balance.asked_s():  # of others, whom servers have told to wait
                self._giving_up.wait(min(asked_s, self._patience.total_s))
            with self._balance.chosen() as server:
                try:
                    return self._ask(server, path, body_for(server), read)
                except _NoAnswerError as error:
                    failure = error
            if failure.unusable:
                attempts = min(attempts, ATTEMPTS_AT_UNUSABLE)
            self._balance.failed(server, failure.rest_s)
            all_rest = self._balance.all_rest()  # else another one is asked at once
            wait_s = max(pause_s, self._balance.asked_s()) if all_rest else 0.0
            spent_s = time.monotonic() - began
            if attempt >= attempts or spent_s + wait_s > self._patience.total_s:
                break
            if self._giving_up.wait(wait_s):
                break
            attempt, pause_s = attempt + 1, min(2 * pause_s, LONGEST_PAUSE_S)
        said = f"{server} {failure} (asked {attempt} times in {spent_s:.0f} s)"
        if failure.unusable:
            raise UnusableAnswerError(said)
        raise SamplingError(
            said,
            "start the server again and type the same command: what was drawn is kept; "
            "sampling.server_attempts and sampling.server_patience_s say how long is tried",
        )

    def _ask(
        self, server: str, path: str, body: dict[str, Any], read: Callable[[Any], Read]
    ) -> Read:
        """One attempt. Raises _NoAnswerError where another one may help."""
        try:
            answer = self._http.ask(self._logins[server], path, self._most_bytes, body)
        except httpx.RequestError as error:
            raise _NoAnswerError(f"didn't answer: {error or type(error).__name__}") from None
        except UnusableAnswerError as error:
            raise _NoAnswerError(f"can't be understood: {error}", unusable=True) from None
        answered = f"answered {answer.status}: {answer.beginning}"
        if 200 <= answer.status < 300:
            try:
                return read(answer.json())
            except (ValueError, LookupError, TypeError, AttributeError) as error:
                raise _NoAnswerError(
                    f"{answered}, which holds no completion ({type(error).__name__}: {error})",
                    _retry_after_s(answer),
                    unusable=True,
                ) from None
        if answer.status in _ABOUT_THE_PROMPT:
            raise BadPromptError(f"{server} {answered}")
        if answer.status not in _TRY_AGAIN:
            raise SamplingError(
                f"{server} {answered}",
                f"check its address, the model's name and ${API_KEY_VARIABLE}",
            )
        raise _NoAnswerError(answered, _retry_after_s(answer))


def _retry_after_s(answer: Answer) -> float:
    """The seconds that a server asks to be left alone, given as such or as a date; else 0."""
    header = answer.headers.get("retry-after", "")
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return 0.0
