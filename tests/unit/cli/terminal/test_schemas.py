"""Every command that answers in JSON has a schema, which `sage schema` prints."""

import json

import pytest
from json_answers import misfits, validator
from jsonschema import Draft202012Validator

from sage_cli.cli.app import COMMANDS, command_named
from sage_cli.cli.terminal.schemas import ANSWERS, ERROR


def answering(name: str, command: object) -> list[str]:
    """The commands below one that know `--json`."""
    if inner := getattr(command, "commands", None):
        return [found for one in inner for found in answering(f"{name} {one}", inner[one])]
    options = [word for option in command.params for word in option.opts]
    return [name] if "--json" in options else []


def test_every_command_that_answers_has_a_schema_and_nothing_else_has():
    found = {one for name in COMMANDS for one in answering(name, command_named(name))}
    assert found == set(ANSWERS) - {ERROR}


@pytest.mark.parametrize("command", ANSWERS)
def test_its_schema_is_valid_and_closed(command):
    Draft202012Validator.check_schema(validator(command).schema)
    assert misfits(command, {"no such": "answer"})
    assert misfits(command, [])


def test_an_error_has_a_cause_a_next_step_and_an_exit_code():
    error = {"cause": "a", "next_step": None, "exit_code": 2}
    assert not misfits(ERROR, {"error": error})
    assert misfits(ERROR, {"error": {"cause": "a", "exit_code": 2}})
    assert misfits(ERROR, {"error": {**error, "code": 2}})


def test_schema_prints_one_or_lists_all(sage):
    printed = json.loads(sage("schema", "runs", "list").stdout)
    assert printed == validator("runs list").schema
    assert printed["title"] == "sage runs list --json"
    assert sage("schema").stdout.split("\n")[:-1] == list(ANSWERS)


def test_schema_of_a_command_that_prints_no_json(sage):
    typed = sage("schema", "runs", "lst")
    assert typed.code == 2
    assert "did you mean `sage schema runs list`?" in typed.words
