"""A port of this machine that nobody listens on."""

import socket


def free_port():
    """One that was free just now."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]
