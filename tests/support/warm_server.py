"""Forks commands from a process that has loaded the libraries: python warm_server.py SOCKET.

Each command is a process in a session of its own, with its client's output, directory, environment,
arguments and signals, and is killed when its client dies. What it doesn't share with one that was
started afresh: modules are loaded already, and Python's hashes of strings are the same in all.
The server ends when nobody holds a lease any more, or whoever started it is gone before that.
"""

import atexit
import gc
import importlib
import json
import os
import random
import runpy
import selectors
import signal
import socket
import struct
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

LIBRARIES = (
    "torch",
    "transformers",
    "peft",
    "datasets",
    "trl",
    "wandb",
    "optuna",
    "matplotlib.pyplot",
    "sage_cli.training.rl",
    "sage_cli.training.sft",
    "sage_cli.evaluation.evaluate",
    "sage_cli.trials.sweep.run",
    "sage_cli.trials.suites.run",
)
"""Nothing of `sage_cli.cli`, which looks at the terminal and the environment when it is loaded."""
LOOK_S = 10.0
"""From one look at whether anybody is left to the next, where nothing happens."""
LEASE = b"\0\0\0\0"
"""What a connection begins with that is no command: the server lives as long as one is open."""


class Server:
    """Commands by their clients' connections."""

    def __init__(self, path):
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(f"{path}.new")
        self.listening.listen(64)
        Path(f"{path}.new").rename(path)  # whoever finds it is heard
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listening, selectors.EVENT_READ, self.accept)
        self.clients = {}
        self.leases, self.leased, self.parent = 0, False, os.getppid()
        awake, wake = socket.socketpair()
        for end in (awake, wake):
            end.setblocking(False)
        self.pair = (awake, wake)  # the second is kept open for the signals
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake.fileno())
        self.selector.register(awake, selectors.EVENT_READ, self.reap)

    def next_command(self):
        """In a process that was forked for it, the next command; None when the server is to end."""
        while True:
            for key, _ in self.selector.select(LOOK_S):
                if (asked := key.data(key.fileobj)) is not None:
                    return asked
            given_back = self.leases == 0 and (self.leased or os.getppid() != self.parent)
            if given_back:
                return None

    def accept(self, listening):
        """Begin a lease or a command; in its process the command."""
        client, _ = listening.accept()
        head, descriptors, _, _ = socket.recv_fds(client, 4, 3)
        if head == LEASE:
            self.leases, self.leased = self.leases + 1, True
            self.selector.register(client, selectors.EVENT_READ, self.give_back)
            with suppress(BrokenPipeError):
                client.sendall(LEASE)
            return None
        body = b""
        while head and len(body) < struct.unpack("I", head)[0]:
            body += (more := client.recv(1 << 16))
            head = head if more else b""
        if not head:  # it died while it asked
            self.let_go([client, *descriptors])
            return None
        process = os.fork()
        if process == 0:
            for number, descriptor in enumerate(descriptors):
                os.dup2(descriptor, number)
            self.let_go([client, *descriptors])
            self.close()
            return json.loads(body)
        self.let_go(descriptors)
        self.clients[process] = client
        self.selector.register(
            client, selectors.EVENT_READ, lambda client: self.hand_on(client, process)
        )
        return None

    def hand_on(self, client, process):
        """Hand on the signals that reached the client; kill its process where it is dead."""
        if client.fileno() < 0:  # `reap` came first in this round: both ended at once
            return
        numbers = b""
        with suppress(ConnectionResetError):
            numbers = client.recv(16)
        with suppress(ProcessLookupError):
            for number in numbers or [signal.SIGKILL]:
                os.kill(process, number)
        if not numbers:
            self.selector.unregister(client)
            with suppress(ProcessLookupError):  # it may not have its session yet
                os.killpg(process, signal.SIGKILL)

    def reap(self, awake):
        """Tell clients how their processes ended."""
        with suppress(BlockingIOError):
            awake.recv(1 << 12)
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                client = self.clients.pop(ended[0])
                with suppress(OSError):
                    client.sendall(struct.pack("i", os.waitstatus_to_exitcode(ended[1])))
                with suppress(KeyError):
                    self.selector.unregister(client)
                client.close()

    def give_back(self, client):
        """A lease has ended; with the last one the server."""
        self.selector.unregister(client)
        client.close()
        self.leases -= 1

    def let_go(self, ends):
        """Close sockets and descriptors."""
        for end in ends:
            os.close(end) if isinstance(end, int) else end.close()

    def close(self):
        """In a command's process: let go of all that is the server's."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        watched = [key.fileobj for key in self.selector.get_map().values()]
        self.let_go([*watched, *self.pair, *self.clients.values()])
        self.selector.close()


def become(asked, temporary):
    """Make this process what one would be that was started for the command.

    `temporary` are folders that libraries made when they were loaded, to be removed at the end:
    it gets its own, and leaves the server's alone.
    """
    for folder in temporary:
        folder._finalizer.detach()  # type: ignore[attr-defined]
        folder.__init__()  # type: ignore[misc]
    os.setsid()
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in asked["ignored"]:
        signal.signal(number, signal.SIG_IGN)
    sys.argv, sys.executable = asked["words"], asked["python"]
    here = asked["folder"] if sys.argv[0] == "-m" else str(Path(sys.argv[0]).parent)
    sys.path[0:1] = [here, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    importlib.invalidate_caches()
    random.seed()
    sys.modules["numpy"].random.seed()
    sys.modules["torch"].set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))


def main(path):
    """Serve, and in each process that is forked run its command."""
    os.fsync = lambda _: None  # as in the tests themselves
    gc.disable()  # it would look at all that is loaded, again and again
    importlib.import_module("sage_cli.cli.libraries").prepare()
    for name in LIBRARIES:
        importlib.import_module(name)
    temporary = [one for one in gc.get_objects() if isinstance(one, TemporaryDirectory)]
    gc.collect()
    gc.freeze()
    gc.enable()
    server = Server(path)
    if (asked := server.next_command()) is None:
        return
    become(asked, temporary)
    status = None
    atexit.register(lambda: leave(status))  # first, so it is the last that is called
    try:
        if sys.argv[0] == "-m":
            sys.argv[:2] = ["sage"]
            importlib.import_module("sage_cli.cli.app").main()
        else:
            runpy.run_path(sys.argv[0], run_name="__main__")
        status = 0
    except SystemExit as ended:
        status = ended.code or 0
        raise


def leave(status):
    """End at once: an interpreter that is taken apart copies all pages that it shares."""
    if isinstance(status, int):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    main(sys.argv[1])
