"""A sampler for tests, whose texts are made of the request and the index of the sample."""

from collections.abc import Iterator, Sequence
from typing import Any

from sage_cli.sampling.sampler import SampleRequest
from sage_cli.store.sample_parts import Completion


class Scripted:
    """Give `text(request, index)`; note what was asked, and how often it was closed."""

    provenance = {"engine": "scripted"}  # noqa: RUF012

    def __init__(self, setup: Any = None) -> None:
        self.setup, self.closed = setup, 0
        self.asked: list[SampleRequest] = []

    def text(self, request: SampleRequest, index: int) -> str:
        raise NotImplementedError

    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
        for request in requests:
            self.asked.append(request)
            for index in request.indices:
                text = self.text(request, index)
                yield Completion(request.problem_id, index, request.seed, text, 3, "stop")

    def close(self) -> None:
        self.closed += 1


def solution(answer: object) -> str:
    return f"<SOLUTION>{answer}</SOLUTION>"
