"""Explain settings: type, default and meaning; and the schema's complaints in sentences."""

from __future__ import annotations

import inspect
import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from json import dumps
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import to_jsonable_python

from sage_cli.config.schema import UNIONS, Setting, sections_at, settings
from sage_cli.errors import NEAR, ConfigurationError, did_you_mean, in_short
from sage_cli.guides.guide import Guide
from sage_cli.methods.loop import Method
from sage_cli.settings.elsewhere import (
    ABSENT,
    METHODS,
    elsewhere,
    example_instead_of_value,
    notes_on_name,
)
from sage_cli.settings.section import docstrings, is_cosmetic

_BOUNDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
_WORDS = {
    int: "whole number",
    float: "number",
    bool: "true or false",
    str: "text",
    Path: "path",
    NoneType: "null",
    Any: "anything",
}
_FLAGS = {"rl": ("method", "--algo"), "guide": ("guide", "--guide")}
"""Sections of which a flag chooses the class: what a class is called, and the flag."""
_NEEDED = re.compile(r" needs ([a-z_.]+=[\w-]+)$", re.MULTILINE)
_NAME = re.compile(r"[a-z_]+(?:\.[a-z_0-9]+)+")
_CHOOSING: dict[str, type[BaseModel]] = {"rl.algo": Method, "guide.name": Guide}
"""Settings that choose a member of a union, and the base of all members, which explains them."""
_MODEL_OPTIONS = ("model", "model_name", "base_model", "model_path", "checkpoint")
"""Options by which other programs take the model that a run starts from."""
ELSEWHERE = elsewhere()
"""Names of other programs for what a setting here does."""
_FLAG_OF = {
    "anchor.beta": "--beta",
    "anchor.kl": "--kl",
    "data.rl.name": "--data",
    "model.path": "--init",
    "rl.algo": "--algo",
    "rl.learning_rate": "--lr",
    "rl.processes": "--processes",
    "rl.seed": "--seed",
    "rl.steps": "--steps",
    "run.root": "--runs",
}
"""Settings that are typed as a flag, with any command that has it."""
_FLAG_TYPED = {
    **_FLAG_OF,
    "rl.advantage": "--advantage",
    "rl.compat": "--compat",
    "guide.name": "--guide",
    "guide.tau": "--tau",
    "guide.rho": "--rho",
    "model.tuning": "--full",
    "data.root": "--root",
    "data.rl.fields.question": "--question-field",
    "data.rl.fields.gold": "--gold-field",
    "evaluation.benchmark": "--benchmark",
    "evaluation.fields.question": "--question-field",
    "evaluation.fields.gold": "--gold-field",
    "evaluation.k": "--k",
    "evaluation.samples": "--n",
    "evaluation.seeds": "--seeds",
    "evaluation.limit": "--limit",
    "grading.mode": "--mode",
    "grading.extract": "--extract",
    "grading.judge": "--judge",
}
"""Settings that some command has a flag for: what was typed where their origin is a flag."""


@dataclass(frozen=True)
class Meaning:
    """A setting as one section has it; a union's members may each have it in a way of their own.

    `member` is the member's name, such as `branch`, and None outside unions. `section` says what
    its section is about, and so where in the paper its default comes from.
    """

    key: str
    member: str | None
    type: str
    default: Any
    choices: tuple[str, ...]
    meaning: str
    section: str
    cosmetic: bool


def meant_settings(typed: str) -> dict[str, tuple[Meaning, ...]]:
    """Return the settings that `typed` names: one, a section's, or those that end in it.

    Raises ConfigurationError where there is none.
    """
    by_name = settings()
    inside = [key for key in by_name if f"{key}.".startswith(f"{typed}.")]
    ending = [key for key in by_name if key.endswith(f".{typed}")]
    if keys := inside or ending:
        return {key: meanings_of(by_name[key]) for key in keys}
    # `guide.taw` is close to guide.tau, and `taw` to tau
    check_called_here(typed)
    names = {key.rpartition(".")[2] if "." not in typed else key: key for key in by_name}
    close = get_close_matches(typed, names, n=1, cutoff=NEAR)
    raise ConfigurationError(
        f"there is no setting '{typed}'",
        f"did you mean {names[close[0]]}?" if close else "`sage config show` prints every setting",
    )


def meanings_of(setting: Setting) -> tuple[Meaning, ...]:
    """Return the meanings of a setting, one for all members that agree, most of them first.

    What most members of a union say is of no member in particular.
    """
    if setting.key in _CHOOSING:  # each member's class has its own name as the only choice
        choices = tuple(map(_member_name, setting.sections))
        meaning = _meaning(setting, _CHOOSING[setting.key], None)
        return (replace(meaning, type="choice", choices=choices),)
    alike: dict[Meaning, list[type[BaseModel]]] = {}
    for section in setting.sections:
        meaning = _meaning(setting, section, None)
        alike.setdefault(replace(meaning, section="", default=dumps(meaning.default)), []).append(
            section
        )
    meanings = []
    for agreeing in sorted(alike.values(), key=len, reverse=True):
        most = len(agreeing) > setting.members / 2
        definer = next(
            base for base in agreeing[0].__mro__ if setting.name in inspect.get_annotations(base)
        )
        member = None if most else ", ".join(map(_member_name, agreeing))
        meanings.append(_meaning(setting, definer, member))
    return tuple(meanings)


def _member_name(section: type[BaseModel]) -> str:
    """Return the value of `algo`, `name` or `kind` that selects a member of a union."""
    for tag in UNIONS.values():
        if tag in section.model_fields:
            names = get_args(section.model_fields[tag].annotation)
            return str(names[0]) if names else "another package's"
    return section.__name__


def _meaning(setting: Setting, section: type[BaseModel], member: str | None) -> Meaning:
    field = section.model_fields[setting.name]
    bounds = [
        f"{words} {getattr(constraint, sign):g}"
        for constraint in field.metadata
        for sign, words in _BOUNDS.items()
        if getattr(constraint, sign, None) is not None
    ]
    default = "required"
    if not field.is_required():
        default = to_jsonable_python(field.get_default(call_default_factory=True))
    return Meaning(
        setting.key,
        member,
        ", ".join([_in_words(field.annotation), *bounds]),
        default,
        tuple(map(str, _choices(field.annotation))),
        docstrings(section).get(setting.name, ""),
        inspect.cleandoc(section.__doc__ or "").split("\n\n")[0].replace("\n", " "),
        is_cosmetic(section, setting.name),
    )


def _choices(annotation: Any) -> list[Any]:
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    return [choice for part in get_args(annotation) for choice in _choices(part)]


def _in_words(annotation: Any) -> str:
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _in_words(parts[0])
    if origin is Literal:
        return "choice"
    if origin in (Union, UnionType):
        return " or ".join(map(_in_words, parts))
    if origin is tuple:
        if Ellipsis in parts:
            return f"list of {_in_words(parts[0])}"
        return f"list of {len(parts)}: {', '.join(map(_in_words, parts))}"
    if origin in (list, dict):
        return "list" if origin is list else "mapping"
    return _WORDS.get(annotation, getattr(annotation, "__name__", str(annotation)))


def said_by(setting: str, origin: str) -> str:
    """Return who set a setting, for example `--guide`, `--set` or `preset tiny`."""
    return _FLAG_TYPED.get(setting, "the command line") if origin == "flag" else origin


def explain(error: ValidationError) -> list[str]:
    """Return one sentence for every problem that `error` found, in the schema's order."""
    sentences: list[str] = []
    for complaint in error.errors():
        sentences += _sentences(complaint)
    return sentences


def remedy(problems: Sequence[str], error: ValidationError | None = None) -> str:
    """Return the next step for `problems`: a plug-in's own, or where a setting is explained."""
    for complaint in error.errors() if error else ():
        refused = complaint.get("ctx", {}).get("error")
        if isinstance(refused, ConfigurationError) and refused.next_step:
            return refused.next_step
    if needed := _NEEDED.findall("\n".join(problems)):
        return "add " + " ".join(f"--set {setting}" for setting in dict.fromkeys(needed))
    by_name = settings()
    for name in _NAME.findall("\n".join(problems)):
        if name == "rl.algo":
            return "`sage config algos` lists the methods"
        if name in by_name:
            return f"`sage config explain {name}` explains it"
    return "`sage config show` prints every setting with its default"


def _sentences(complaint: Any) -> list[str]:
    path = _path(complaint["loc"])
    name, kind, given = ".".join(path), complaint["type"], complaint.get("input")
    if kind == "extra_forbidden":
        return [_unknown_key(path)]
    if kind in ("literal_error", "union_tag_invalid"):
        expected = complaint["ctx"].get("expected") or complaint["ctx"].get("expected_tags")
        choices = re.findall(r"'([^']*)'", str(expected))
        if kind == "union_tag_invalid":
            name, given = f"{name}.kind", complaint["ctx"].get("tag")
        if name == "rl.algo":
            return [f"{name} is '{given}'{_near_method(str(given), choices)}"]
        return [f"{name} is '{given}'; it can be {', '.join(choices)}{meant(str(given), choices)}"]
    if kind == "value_error":
        text = str(error := complaint["ctx"]["error"])
        if not path or isinstance(error, ConfigurationError):
            return text.splitlines()
        choices = re.findall(r"[\w-]+", text.partition("known: ")[2])
        typed = given.get("name") if isinstance(given, dict) else given  # of a reward
        return [f"{name}: {text}{meant(str(typed), choices) if choices else ''}"]
    message = complaint["msg"][0].lower() + complaint["msg"][1:]
    return [f"{name} is {in_short(given)}: {message}"]


def _near_method(given: str, choices: Sequence[str]) -> str:
    """Return the end of the sentence on a method that isn't here.

    There are too many to list if one is near, or if another program's is known.
    """
    if other := METHODS.get(given.lower()):
        return f": {other}"
    return meant(given, choices) or f"; it can be {', '.join(choices)}"


def _unknown_key(path: Sequence[str]) -> str:
    """Return the sentence on a key that no section has, or that another member of a union has."""
    *above, key = path
    sections = sections_at(above)
    section_name = ".".join(above) or "the configuration"
    if having := [section for section in sections if key in section.model_fields]:
        tag = UNIONS[section_name]
        names = [str(get_args(kind.model_fields[tag].annotation)[0]) for kind in having]
        if section_name not in _FLAGS:
            return f"{section_name}.{key} needs {section_name}.{tag}={' or '.join(names)}"
        noun, flag = _FLAGS[section_name]
        owners = f"{' and '.join(names)} {noun}{'s' if len(names) > 1 else ''}"
        flags = " or ".join(f"{flag} {name}" for name in names)
        return (
            f"{section_name}.{key} has an effect only with the {owners}: remove it, or add {flags}"
        )
    if setting := ELSEWHERE.get(key):
        return f"{section_name} has no '{key}': it is {setting} here"
    keys = list(dict.fromkeys(key for section in sections for key in section.model_fields))
    return f"{section_name} has no '{key}'{meant(key, keys) or '; it has ' + ', '.join(keys)}"


def meant(given: str, names: Iterable[str]) -> str:
    """Return ` (did you mean tau?)` for the nearest of the known names, or an empty text."""
    near = did_you_mean(given, dict.fromkeys(names))
    return near and f" ({near})"


def named_elsewhere(option: str, flags: Container[str] | None = None) -> str | None:
    """Return what to type for an option of TRL, Transformers or vLLM, or None.

    `--learning_rate` and `--learning-rate` give `--lr` where the command has it (`flags`);
    `--num_generations` gives a `--set`, and so does `--rl.learning-rate`, which is how tyro spells
    a setting.
    """
    name = option.lstrip("-").replace("-", "_")
    if "." in name and name in settings():
        return f"--set {name}=..."
    if name in _MODEL_OPTIONS:
        model = "--set model.kind=pretrained --set model.path=MODEL"
        return f"--init MODEL, or {model}" if flags is None or "--init" in flags else model
    if (setting := ELSEWHERE.get(name)) is None:
        return ABSENT.get(name)
    flag = _FLAG_OF.get(setting)
    has_it = flag is not None and (flags is None or flag in flags)
    return flag if has_it else f"--set {setting}={example_instead_of_value(name) or '...'}"


def check_called_here(name: str, value: str | None = None) -> None:
    """Raise ConfigurationError for a setting by its name in another program.

    It says what to type for the `value`, or that nothing here does the same.
    """
    if name in settings():
        return
    if setting := ELSEWHERE.get(name):
        notes = "".join(f"\n{note}" for note in notes_on_name(name))
        called, line = f"`{name}` is called `{setting}` here", f"type --set {setting}={value}"
        if value is None:
            line = f"`sage config explain {setting}` explains it"
        elif example := example_instead_of_value(name):
            called += ", and its values differ"
            line = f"type, for example, --set {setting}={example}"
        raise ConfigurationError(called, f"{line}{notes}")
    if name in ABSENT:
        raise ConfigurationError(f"there is no setting here for `{name}`", ABSENT[name])


def settings_ending_in(name: str) -> list[str]:
    """Return the settings whose last part is `name`."""
    return [key for key in settings() if key.rpartition(".")[2] == name]


def typed_line(setting: str, value: str) -> str:
    """Return what to type for a setting: its flag where it has one, otherwise `--set`."""
    flag = _FLAG_OF.get(setting)
    return f"{flag} {value}" if flag else f"--set {setting}={value}"


def typed_as_setting(word: str) -> str | None:
    """Return the `--set` that a word `section.key=value` means, which is how Hydra takes settings.

    None for a word that names no setting, here or elsewhere.
    """
    key, equals, value = word.partition("=")
    name = key.lstrip("+").replace("-", "_")
    setting = name if name in settings() else ELSEWHERE.get(name)
    return f"--set {setting}={value}" if equals and setting else None


def _path(location: Sequence[str | int]) -> list[str]:
    """Return the setting's name, without the union's tag that pydantic puts after its section."""
    path = [str(part) for part in location]
    if path[:1] == ["model"] and len(path) > 1:
        path.pop(1)
    return path
