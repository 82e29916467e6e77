"""A progress that remembers what it was told is being done."""

from contextlib import AbstractContextManager, nullcontext

from sage_cli.progress import Silent


class Told(Silent):
    """`done` has the sentences of `doing`, in their order."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def doing(self, text: str) -> AbstractContextManager[None]:
        """Remember."""
        self.done.append(text)
        return nullcontext()
