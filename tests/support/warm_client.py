"""Types a command to the warm server: python -I -S warm_client.py SOCKET PYTHON WORDS.

WORDS are a Python's: `-m sage_cli` and a command line, or a file of a program with arguments.
To whoever started it, it is the command: it hands on its output, directory, environment and the
signals that reach it, and ends as the server's process does. With the standard library alone it
costs the start of a bare interpreter.
"""

import json
import os
import signal
import socket
import struct
import sys

HANDED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def main(path, python, words):
    """The exit code of the command, or minus the number of the signal that ended it."""
    asked = {
        "words": words,
        "python": python,
        "folder": os.getcwd(),  # noqa: PTH109 (pathlib takes as long to load as all else)
        "environment": dict(os.environ),
        "ignored": [n for n in HANDED_ON if signal.getsignal(n) == signal.SIG_IGN],
    }
    body = json.dumps(asked).encode()
    server = socket.socket(socket.AF_UNIX)
    server.connect(path)
    for number in HANDED_ON:
        signal.signal(number, lambda number, _: server.send(bytes([number])))
    socket.send_fds(server, [struct.pack("I", len(body))], [0, 1, 2])
    server.sendall(body)
    answer = server.recv(4)
    return struct.unpack("i", answer)[0] if answer else 1


if __name__ == "__main__":
    code = main(sys.argv[1], sys.argv[2], sys.argv[3:])
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)
