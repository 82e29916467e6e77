"""A process that meets others and says on which addresses they and their launcher listen."""

import json
import os
import sys
from pathlib import Path

from torch import distributed


def addresses(*processes):
    """Return the addresses in hexadecimal digits on which processes listen for TCP."""
    links = [link for number in processes for link in Path(f"/proc/{number}/fd").iterdir()]
    sockets = {str(link.readlink())[8:-1] for link in links if link.is_symlink()}
    tables = (Path(f"/proc/net/{table}").read_text().splitlines() for table in ("tcp", "tcp6"))
    rows = [line.split() for table in tables for line in table[1:]]
    return sorted({row[1].split(":")[0] for row in rows if row[3] == "0A" and row[9] in sockets})


def main():
    """Meet, look, and say what was seen."""
    distributed.init_process_group("gloo")
    numbers = [None] * distributed.get_world_size()
    distributed.all_gather_object(numbers, os.getpid())
    if distributed.get_rank() == 0:
        sys.stdout.write(json.dumps(addresses(os.getppid(), *numbers)) + "\n")
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
