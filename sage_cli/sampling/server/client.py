"""Requests to servers that may fail: repeated elsewhere or later, then given up with an error."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

import httpx

from sage_cli.errors import SamplingError
from sage_cli.json_value import json_value
from sage_cli.sampling.server.http import Answer, Login, ServerHttp, UnusableAnswerError
from sage_cli.settings.sections.sampling import SamplingSection

REST_S = 5.0


class Balance:
    """Chooses the server with the fewest open requests; a failed one rests for a while.

    Safe to use from many threads. `clock` returns seconds.
    """

    def __init__(self, servers: Sequence[str], clock: Callable[[], float] = time.monotonic) -> None:
        self.servers, self._clock = tuple(servers), clock
        self._open = dict.fromkeys(self.servers, 0)
        self._rests_until_s = dict.fromkeys(self.servers, 0.0)
        self._asked_until_s = dict.fromkeys(self.servers, 0.0)
        self._lock = threading.Lock()

    @contextmanager
    def chosen(self) -> Iterator[str]:
        """Yield a server for one request, which counts as open until the block ends."""
        with self._lock:
            server = min(self.servers, key=self._rank)
            self._open[server] += 1
        try:
            yield server
        finally:
            with self._lock:
                self._open[server] -= 1

    def failed(self, server: str, asked_s: float = 0.0) -> None:
        """Let a server rest, so that others are asked if there are any.

        `asked_s` is the pause that it requests.
        """
        with self._lock:
            now_s = self._clock()
            self._rests_until_s[server] = now_s + max(REST_S, asked_s)
            self._asked_until_s[server] = now_s + asked_s

    def all_rest(self) -> bool:
        """Return True if every server has failed recently."""
        with self._lock:
            return min(self._rests_until_s.values()) > self._clock()

    def asked_s(self) -> float:
        """Return the seconds until one of the servers may be asked, as they have requested."""
        with self._lock:
            return max(0.0, min(self._asked_until_s.values()) - self._clock())

    def _rank(self, server: str) -> tuple[float, int]:
        rest_s = max(0.0, self._rests_until_s[server] - self._clock())
        return rest_s, self._open[server]


FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
ATTEMPTS_AT_UNUSABLE = 3
"""An unusable answer may be a proxy's temporary page, or the server's answer to every request."""
API_KEY_VARIABLE = "SAGE_SERVER_API_KEY"
_TRY_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
_ABOUT_THE_PROMPT = frozenset({400, 413, 422})

Read = TypeVar("Read")


class _NoAnswerError(Exception):
    """A server gave no answer, but another attempt may succeed.

    `rest_s` is the pause that the server requests; `unusable` marks an answer without a completion.
    """

    def __init__(self, why: str, rest_s: float = 0.0, *, unusable: bool = False) -> None:
        super().__init__(why)
        self.rest_s, self.unusable = rest_s, unusable


class BadPromptError(Exception):
    """A server cannot answer this prompt, however often it is sent."""


class ServerClient:
    """Sends requests to the least busy of several servers; `logins` are by address.

    Answers are read up to `most_bytes`.
    """

    def __init__(
        self,
        http: ServerHttp,
        logins: Mapping[str, Login],
        balance: Balance,
        section: SamplingSection,
        most_bytes: int,
    ) -> None:
        self._http, self._logins, self._most_bytes = http, logins, most_bytes
        self._balance = balance
        self._attempts, self._patience_s = section.server_attempts, section.server_patience_s
        self._giving_up = threading.Event()

    def give_up(self) -> None:
        """Make every request that waits for another attempt fail now."""
        self._giving_up.set()

    def post(
        self, path: str, body_for: Callable[[str], dict[str, Any]], read: Callable[[Any], Read]
    ) -> Read:
        """Return `read` of the JSON that a server answers to `body_for(server)`.

        `read` raises ValueError, LookupError or TypeError for an unusable answer. That is repeated,
        as for a server that is busy or gone. Raises BadPromptError for a prompt that cannot be
        answered, UnusableAnswerError if answers have no completion, SamplingError at the end of
        patience.
        """
        began, pause_s, attempt = time.monotonic(), FIRST_PAUSE_S, 1
        attempts = self._attempts
        while True:
            if asked_s := self._balance.asked_s():  # the servers have told other requests to wait
                self._giving_up.wait(min(asked_s, self._patience_s))
            with self._balance.chosen() as server:
                try:
                    return self._ask(server, path, body_for(server), read)
                except _NoAnswerError as error:
                    failure = error
            if failure.unusable:
                attempts = min(attempts, ATTEMPTS_AT_UNUSABLE)
            self._balance.failed(server, failure.rest_s)
            all_rest = self._balance.all_rest()  # else another server is asked at once
            wait_s = max(pause_s, self._balance.asked_s()) if all_rest else 0.0
            spent_s = time.monotonic() - began
            if attempt >= attempts or spent_s + wait_s > self._patience_s:
                break
            if self._giving_up.wait(wait_s):
                break
            attempt, pause_s = attempt + 1, min(2 * pause_s, LONGEST_PAUSE_S)
        said = f"{server} {failure} (asked {attempt} times in {spent_s:.0f} s)"
        if failure.unusable:
            raise UnusableAnswerError(said)
        raise SamplingError(
            said,
            "start the server again and run the same command: stored samples are kept; "
            "sampling.server_attempts and sampling.server_patience_s bound the attempts",
        )

    def _ask(
        self, server: str, path: str, body: dict[str, Any], read: Callable[[Any], Read]
    ) -> Read:
        """Make one attempt. Raises _NoAnswerError if another one may help."""
        try:
            answer = self._http.ask(self._logins[server], path, self._most_bytes, body)
        except httpx.RequestError as error:
            raise _NoAnswerError(f"didn't answer: {error or type(error).__name__}") from None
        except UnusableAnswerError as error:
            raise _NoAnswerError(f"can't be understood: {error}", unusable=True) from None
        answered = f"answered {answer.status}: {answer.beginning}"
        if 200 <= answer.status < 300:
            try:
                return read(json_value(answer.content))
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
    """Return the pause in seconds that a server requests, as a number or a date; else 0."""
    header = answer.headers.get("retry-after", "")
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return 0.0
