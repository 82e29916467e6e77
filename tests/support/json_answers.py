"""Commands that answer in JSON, and a check of what one printed."""

import json

from sage_cli.cli.app import command_named
from sage_cli.cli.listing import COMMANDS


def answering(name, command):
    """Return the commands at and below one that know `--json`."""
    options = [word for option in command.params for word in option.opts]
    inner = getattr(command, "commands", {})
    below = [found for one in inner for found in answering(f"{name} {one}", inner[one])]
    return [*([name] if "--json" in options else []), *below]


def all_answering():
    """Return every command that knows `--json`, as `runs list`."""
    return {found for name in COMMANDS for found in answering(name, command_named(name))}


def command_of(words, known):
    """Return `runs list` of `runs list --json`."""
    two = " ".join(words[:2])
    return two if two in known else words[0]


def one_object(printed):
    """Return the one JSON object that was printed, without colours and without NaN."""
    assert "\x1b" not in printed
    found = json.loads(printed, parse_constant=_refuse)
    assert isinstance(found, dict)
    if set(found) == {"error"}:
        assert set(found["error"]) == {"cause", "next_step", "exit_code"}
    return found


def _refuse(constant):
    raise AssertionError(f"{constant} is no JSON")
