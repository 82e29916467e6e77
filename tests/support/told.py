"""A progress that remembers."""

from contextlib import nullcontext

from sage_cli.progress import Silent


class Told(Silent):
    """A progress that remembers what it was told is being done."""

    def __init__(self):
        self.done = []

    def doing(self, text):
        self.done.append(text)
        return nullcontext()
