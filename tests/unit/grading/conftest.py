"""One pool of workers for all grading tests."""

import pytest

from sage_cli.grading import Grader


@pytest.fixture(scope="session")
def grader():
    with Grader(workers=2, timeout_s=60) as shared_grader:
        yield shared_grader


@pytest.fixture(scope="session")
def status(grader):
    """(gold, answer) -> status; the answer goes between the tags."""

    def of(gold, answer):
        return grader.grade(gold, f"<SOLUTION>{answer}</SOLUTION>").status

    return of
