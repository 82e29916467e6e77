"""Starts a launcher whose stores listen on the loopback: `python -m` this module, then another's.

Processes that train together meet in a store of torch (`TCPStore`), which has no password and which
listens on every interface of the machine, whatever address it is given. It accepts a socket,
though: here one that is bound to the loopback, wherever the store's own address is the loopback's.
"""

from __future__ import annotations

import ipaddress
import runpy
import socket
import sys
from typing import Any

import torch.distributed


class LoopbackStore(torch.distributed.TCPStore):  # type: ignore[misc,name-defined]
    """A TCPStore that listens where its clients look for it, if that is the loopback."""

    def __init__(
        self,
        host_name: str,
        port: int = 0,
        world_size: int | None = None,
        is_master: bool = False,
        *rest: Any,
        **settings: Any,
    ) -> None:
        if is_master and (address := _loopback(host_name)) is not None:
            listening = socket.create_server((address, port))
            host_name, port = listening.getsockname()
            settings["master_listen_fd"] = listening.detach()
        super().__init__(host_name, port, world_size, is_master, *rest, **settings)


def _loopback(host: str) -> str | None:
    """Return the loopback's address of version 4 if a host's first address is one; else None."""
    try:
        addresses = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return None
    is_local = bool(addresses) and ipaddress.ip_address(addresses[0][4][0]).is_loopback
    return "127.0.0.1" if is_local else None


def main() -> None:
    """Run a module as `python -m` does, after torch's store was replaced by ours."""
    setattr(torch.distributed, "TCPStore", LoopbackStore)  # noqa: B010  of mypy's
    sys.argv[:] = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
