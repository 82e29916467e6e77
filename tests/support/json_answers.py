"""A check of what a command with `--json` printed."""

import json


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
