"""A sampler for tests, whose texts are made of the request and the index of the sample."""

from sage_cli.store.completion import Completion


class Scripted:
    """Give `text(request, index)`; note what was asked, and how often it was closed."""

    provenance = {"engine": "scripted"}  # noqa: RUF012

    def __init__(self, setup=None):
        self.setup, self.closed = setup, 0
        self.asked = []

    def text(self, request, index):
        raise NotImplementedError

    def sample(self, requests):
        for request in requests:
            self.asked.append(request)
            for index in request.indices:
                text = self.text(request, index)
                yield Completion(request.problem_id, index, request.seed, text, 3, "stop")

    def close(self):
        self.closed += 1


def solution(answer):
    return f"<SOLUTION>{answer}</SOLUTION>"
