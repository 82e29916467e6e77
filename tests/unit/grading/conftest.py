"""What the tests of grading have in common."""

import pytest


@pytest.fixture(scope="session")
def status(grader):
    """(gold, answer) -> status; the answer goes between the tags."""

    def of(gold, answer):
        return grader.grade(gold, f"<SOLUTION>{answer}</SOLUTION>").status

    return of
