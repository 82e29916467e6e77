"""Find and read YAML: what ships by its name, a file by its path; how accelerate's files shard.

At the end is `compat: official` of `rl` and of `evaluation`: where the authors' code differs.
"""

from __future__ import annotations

import json
import sysconfig
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

import yaml

from sage_cli.errors import ConfigurationError, SageError, did_you_mean, in_short
from sage_cli.settings.elsewhere import notes_on, translated

_LIBYAML = getattr(yaml, "CSafeLoader", None)
"""Ten times faster; not every build of PyYAML has it, and it says less of what it can't read."""


MOST_NODES, MOST_DEPTH = 100_000, 100
"""Values that a file may have with its aliases written out, and levels that it may nest them."""


class TooLargeError(yaml.YAMLError):
    """YAML that would be too much to walk through, however short it is."""


def yaml_value(text: str) -> Any:
    """Parse `text`. Raises yaml.YAMLError with the message of PyYAML's own reader."""
    try:
        if _LIBYAML is not None:
            with suppress(yaml.reader.ReaderError, yaml.MarkedYAMLError):
                _check_size(text)
                return yaml.load(text, Loader=_LIBYAML)
        else:
            _check_size(text)
        return yaml.safe_load(text)
    except yaml.YAMLError:
        raise
    except Exception as error:  # a date of the month 99, a number of 20,000 digits, ...
        raise yaml.YAMLError(str(error)) from error


def _check_size(text: str) -> None:
    """Raise TooLargeError for deep nesting, and for aliases that stand for more than MOST_NODES.

    libyaml makes values by recursion in C, which ends the process where they are nested too deep.
    """
    size_of: dict[str, int] = {}
    opened: list[tuple[str | None, int]] = []
    size = 0
    for event in yaml.parse(text, Loader=_LIBYAML or yaml.SafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            opened.append((event.anchor, size))
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = opened.pop()
            if anchor is not None:
                size_of[anchor] = size - before
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor in [anchor for anchor, _ in opened]:
                raise TooLargeError(f"*{event.anchor} is used inside its own definition")
            size += size_of.get(str(event.anchor), 0)
        size += isinstance(event, yaml.NodeEvent)
        if size > MOST_NODES:
            raise TooLargeError(
                f"with its aliases written out it has more than {MOST_NODES:,} values"
            )
        if len(opened) > MOST_DEPTH:
            raise TooLargeError(f"it is nested more than {MOST_DEPTH} levels deep")


DEFAULT_PRESET = "tiny"
EXTENDS = "extends"
"""Top-level key of a preset with the name of the one that it is laid over."""
BLOCKS = {"methods": "rl", "guides": "guide"}
"""Top-level keys with settings for each member of a union, chosen or not, and its section."""


def shipped(folder: str) -> Path:
    """`configs` or another folder of files: beside the package, below the prefix once installed."""
    checkout = Path(__file__).resolve().parents[2] / folder
    installed = Path(sysconfig.get_path("data")) / "share" / "sage" / folder
    return checkout if checkout.is_dir() else installed


def preset_names() -> list[str]:
    """Return names of the shipped presets."""
    return sorted(path.stem for path in shipped("configs").glob("*.yaml"))


def preset_about(name: str) -> str:
    """Return the first sentence of the comment at the head of a shipped preset."""
    lines = shipped("configs").joinpath(f"{name}.yaml").read_text(encoding="utf-8").splitlines()
    comment = " ".join(line[1:].strip() for line in takewhile(lambda line: line[:1] == "#", lines))
    return comment.split(". ")[0].removesuffix(".")


def read_preset(name: str) -> dict[str, Any]:
    """Return the layer called `name`: a shipped preset, or a YAML or JSON file by its path."""
    return read_layer(_file("configs", name, "preset"))


def preset_layers(names: Sequence[str], above: tuple[str, ...] = ()) -> dict[str, dict[str, Any]]:
    """Return the layers of presets by name, each after the one that it `extends`.

    A base that is there already isn't laid again. Raises ConfigurationError for a circle.
    """
    layers: dict[str, dict[str, Any]] = {}
    for name in names:
        if name in above:
            raise ConfigurationError(
                f"presets extend each other in a circle: {' > '.join((*above, name))}",
                f"take `{EXTENDS}` out of one of them",
            )
        values = read_preset(name)
        base = values.pop(EXTENDS, None)
        if base is not None:
            beside = str(Path(name).parent / base) if is_path(base) else base
            layers = {**preset_layers([beside], (*above, name)), **layers}
        layers.pop(name, None)  # what is typed comes after all that is to its left
        layers[name] = values
    return layers


def preset_for(path: str) -> str | None:
    """Return the first shipped preset of the model at `path`, a name of the Hub."""
    paths = {name: read_preset(name).get("model", {}).get("path") for name in preset_names()}
    return next((name for name, its in paths.items() if its == path), None)


def accelerate_file(name: str) -> Path:
    """Return the accelerate configuration called `name`: a shipped one, or a file by its path."""
    return _file("configs/accelerate", name, "accelerate configuration")


def _file(folder: str, name: str, kind: str) -> Path:
    """Return a file by its path, or the one of that name among those that ship in `folder`."""
    if is_path(name):
        return Path(name)
    files = {file.stem: file for file in sorted(shipped(folder).glob("*.yaml"))}
    if name in files:
        return files[name]
    raise ConfigurationError(
        f"there is no {kind} '{name}'; there are {', '.join(files)}",
        did_you_mean(name, files) or "or give the path of a YAML file",
    )


def is_path(name: str) -> bool:
    """Return True if a preset, or an accelerate configuration, is a file and not a shipped name."""
    return Path(name).suffix in (".yaml", ".yml", ".json")


def read_layer(path: Path) -> dict[str, Any]:
    """Read a file of settings, whose top level names sections."""
    values = read_yaml(path)
    _check_no_foreign_keys(path, values)
    blocks = {name: values[name] for name in BLOCKS if isinstance(values.get(name), dict)}
    inside = {
        f"{name}.{member}": v for name, block in blocks.items() for member, v in block.items()
    }
    sections = {**values, **inside}
    if isinstance(sections.get(EXTENDS), str):
        del sections[EXTENDS]
    flat = {key: v for key, v in sections.items() if not isinstance(v, dict | None)}
    if flat:
        raise ConfigurationError(
            "\n".join(
                f"{path}: '{key}' must be a section, not {in_short(v)}" for key, v in flat.items()
            ),
            "write each setting below its section, for example `rl:` and then `  steps: 100`",
        )
    return {key: inside for key, inside in values.items() if inside is not None}


def _check_no_foreign_keys(path: Path, values: Mapping[str, Any]) -> None:
    """Answer a configuration of TRL, verl or prime-rl key by key, with the lines that are meant."""
    answered = translated(values)
    if answered is None:
        return
    settings, unknown = answered
    lines = "\n".join(f"--set {key}={_written(value)}" for key, value in settings.items())
    nowhere = f"\nno setting here: {', '.join(unknown)}" if unknown else ""
    notes = "".join(f"\n{note}" for note in notes_on(list(settings)))
    raise ConfigurationError(
        f"{path} is a configuration of another program, of which {len(settings)} keys have a "
        f"setting here{nowhere}",
        f"type these instead, or write them below their sections in a preset:\n{lines}{notes}",
    )


def _written(value: Any) -> str:
    """Return a value as `--set` takes it."""
    return value if isinstance(value, str) else json.dumps(value)


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML file (JSON is YAML) that holds a mapping; ConfigurationError otherwise."""
    try:
        values = deepcopy(_parsed(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise ConfigurationError(f"there is no file {path}", "check the path") from None
    except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        reason = " ".join(str(error).split())
        raise ConfigurationError(f"{path} can't be read as YAML: {reason}") from None
    except RecursionError:
        raise ConfigurationError(f"{path} can't be read: it is nested too deeply") from None
    if values is None:
        return {}
    if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
        raise ConfigurationError(
            f"{path} contains no settings: its top level must be sections, such as `rl:`"
        )
    return values


@cache
def _parsed(text: str) -> Any:
    """Return the content of YAML; of JSON too, which is YAML and read 50 times faster as itself.

    A suite reads the same few presets a hundred times, and a text says the same each time.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return yaml_value(text)


SHARDED = ("FSDP", "DEEPSPEED")
"""Types that spread one model over several processes."""
ZERO_3, FSDP_2 = 3, 2


@dataclass(frozen=True)
class Sharding:
    """The way a launcher shards a model.

    `kind` is one of SHARDED, `level` the version of FSDP or the stage of ZeRO.
    """

    kind: str
    level: int


def distributed_type(settings: Mapping[str, Any]) -> str:
    """Return the type that an accelerate configuration names, in capitals; NO without one."""
    return str(settings.get("distributed_type", "NO")).upper()


def sharding_of(accelerate: str | None) -> Sharding | None:
    """Return the sharding of `rl.accelerate`; None if it has none, or if its file is broken."""
    try:
        settings = read_yaml(accelerate_file(accelerate)) if accelerate else {}
    except (SageError, OSError):
        return None
    kind = distributed_type(settings)
    if kind not in SHARDED:
        return None
    section, level, default = {
        "FSDP": ("fsdp_config", "fsdp_version", 1),
        "DEEPSPEED": ("deepspeed_config", "zero_stage", 2),
    }[kind]
    inside = settings.get(section)
    level_set = inside.get(level, default) if isinstance(inside, Mapping) else default
    return Sharding(kind, int(level_set) if str(level_set).isdigit() else default)


OFFICIAL = "official"
OFFICIAL_SYSTEM_PROMPT = (
    "You are given a problem.\nThink about the problem and provide your working out.\n"
    "Place it between <start_working_out> and <end_working_out>.\n"
    "Then, provide your solution between <SOLUTION></SOLUTION>"
)
"""The wording of the authors' code; Appendix E.4 words it a little differently."""
WARM_UP = "warm-up"


@dataclass(frozen=True)
class OfficialDifference:
    """One setting and the authors' value of it.

    `concerns` names the choices (an algorithm, guides, a tuning, prompt formats, or `warm-up`: a
    published model that is first trained on demonstrations) to which the setting matters; empty
    where it matters to every run.
    """

    setting: str
    value: Any
    concerns: tuple[str, ...] = ()


_GRADING = (
    # Math-Verify is given the completion, not what stands between the tags
    OfficialDifference("grading.mode", "math-verify"),
    OfficialDifference("grading.extract", "text"),
    OfficialDifference("grading.unfinished", "graded"),
)

DIFFERENCES = (
    # older TRL switched the adapter off for the reference; TRL 1 copies it. Of a model that is
    # tuned in full it loads the reference by name: as published
    OfficialDifference("anchor.reference", "pre-sft", ("lora", WARM_UP)),
    # one counter, moved on by each call of the loss
    OfficialDifference("guide.schedule_clock", "loss_call", ("random", "token")),
    # Table 8's batch of 8 is 8 completions
    OfficialDifference("rl.prompts_per_step", 1),
    # generation batches of 16 completions, optimiser batches of 8
    OfficialDifference("rl.steps_per_generation", 2),
    # Transformers' "constant", which ignores the warm-up ratio beside it
    OfficialDifference("rl.scheduler", "constant"),
    OfficialDifference("rl.warmup_ratio", 0.0),
    OfficialDifference("data.rl.limit", None),
    OfficialDifference("prompt.system", OFFICIAL_SYSTEM_PROMPT, ("paper", "chat")),
    # what stands where their configuration names no length, as for the base model
    OfficialDifference("rollout.max_tokens", 1024, (WARM_UP,)),
    OfficialDifference("data.sft.measured", "conversation", (WARM_UP,)),
    OfficialDifference("sft.loss", "text", (WARM_UP,)),
    OfficialDifference("sft.seed", 42, (WARM_UP,)),
    # their DAPO sets epsilon_high and nothing else of it
    OfficialDifference("rl.dynamic_sampling", False, ("dapo",)),
    OfficialDifference("rl.overlong_buffer", None, ("dapo",)),
    *_GRADING,
)
"""What docs/fidelity.md lists under `--compat official`."""


EVALUATION_DIFFERENCES = (
    # what their evaluation asks; the wording is known in substance only
    OfficialDifference(
        "prompt.user",
        "Problem: {question}\nSolve the problem step by step and give a final numerical answer.",
    ),
    OfficialDifference("evaluation.allow_template_mismatch", True),  # they train without that turn
    OfficialDifference("sampling.top_p", 0.95),
    OfficialDifference("sampling.min_p", 0.0),
    OfficialDifference("sampling.stop_at_answer", False),
    OfficialDifference("grading.tolerance", 0.0),  # Minerva's as well
    *_GRADING,
)
"""What docs/fidelity.md lists under an evaluation with `--compat official`."""


def official_settings(choices: Iterable[str], section: str = "rl") -> dict[str, Any]:
    """Return the authors' values by dotted name, for a run of these choices or an evaluation."""
    chosen = set(choices)
    return {
        difference.setting: difference.value
        for difference in (DIFFERENCES if section == "rl" else EVALUATION_DIFFERENCES)
        if not difference.concerns or chosen.intersection(difference.concerns)
    }
