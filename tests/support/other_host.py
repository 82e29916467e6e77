"""Act as a process of another host, which the kernel's locks don't reach.

python other_host.py FOLDER HOST ORDER, where HOST is its name and ORDER one of
`write` (hold the folder, write a record for each line read), `look` (say who holds it).
"""

import fcntl
import socket
import sys
from pathlib import Path

from sage_cli.errors import StoreError
from sage_cli.store import locks
from sage_cli.store.locks import holder_of, is_held, writer
from sage_cli.store.metrics_file import MetricsFile

SITE = """
import os
import sys

sys.path.append({support!r})
import other_host

other_host.elsewhere(os.environ["SAGE_TEST_HOST"])
"""


def elsewhere(name):
    """From now on this process is on the host `name`, and its flock is seen by nobody."""

    def flock(*_):
        """Given to everybody, as on a file system whose locks end at the host."""

    fcntl.flock = flock
    socket.gethostname = lambda: name
    locks._boot = lambda: f"boot of {name}"


def install(packages):
    """Let each Python process with `packages` in its path be on the host $SAGE_TEST_HOST."""
    support = str(Path(__file__).parent)
    (packages / "sitecustomize.py").write_text(SITE.format(support=support))


def say(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main(folder, host, order):
    elsewhere(host)
    if order == "look":
        say(f"{is_held(folder)} {holder_of(folder)}")
        return
    try:
        with writer(folder) as held:
            metrics = MetricsFile(folder / "metrics.jsonl", lease=held)
            say("held")
            for step, _ in enumerate(sys.stdin, start=1):
                metrics.append({"step": step, "host": host})
                say("written")
    except StoreError as error:
        say(error.cause)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
