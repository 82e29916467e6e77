"""Forks commands from a process that has loaded the libraries: warm_server.py SOCKET OWNER.

Each command is a process in a session of its own, with its client's output, directory, environment,
arguments and signals, and is killed when its client dies. What it doesn't share with one that was
started afresh: modules are loaded already, and Python's hashes of strings are the same in all.
The server ends when the process OWNER is gone.
"""

import atexit
import gc
import importlib
import json
import os
import random
import runpy
import signal
import socket
import struct
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

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
LOOK_S = 2.0
"""From one look at whether the owner lives to the next."""


def next_command(path, owner):
    """In a process that was forked for it, the next command; None when the server is to end."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(f"{path}.new")
    listening.listen(64)
    listening.settimeout(LOOK_S)
    Path(f"{path}.new").rename(path)  # whoever finds it is heard
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those who look after commands
    while True:
        with suppress(TimeoutError):
            client, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                return look_after(client)
            client.close()
        try:
            os.kill(owner, 0)
        except ProcessLookupError:
            return None


def look_after(client):
    """In the command's process the command; this one stands between it and its client."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    head, descriptors, _, _ = socket.recv_fds(client, 4, 3)
    if not head:  # it died while it asked
        os._exit(0)
    body = client.recv(*struct.unpack("I", head), socket.MSG_WAITALL)
    process = os.fork()
    if process == 0:
        client.close()
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
            os.close(descriptor)
        return json.loads(body)
    for descriptor in descriptors:  # the output ends with the command
        os.close(descriptor)
    Thread(target=hand_on, args=(client, process), daemon=True).start()
    _, status = os.waitpid(process, 0)
    with suppress(OSError):
        client.sendall(struct.pack("i", os.waitstatus_to_exitcode(status)))
    os._exit(0)


def hand_on(client, process):
    """Hand on the signals that reach the client; kill the command when it is dead."""
    with suppress(ConnectionResetError, ProcessLookupError):
        while numbers := client.recv(16):
            for number in numbers:
                os.kill(process, number)
    for kill in (os.kill, os.killpg):  # it may not have its session yet
        with suppress(ProcessLookupError):
            kill(process, signal.SIGKILL)


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


def main(path, owner):
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
    if (asked := next_command(path, owner)) is None:
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
    main(sys.argv[1], int(sys.argv[2]))
