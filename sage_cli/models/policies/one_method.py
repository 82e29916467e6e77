"""Errors for runs that are taken as training seeds of one method and differ in more than seeds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sage_cli.config.fields import UNIONS, settings
from sage_cli.config.layers import leaves
from sage_cli.errors import ConfigurationError
from sage_cli.models.policies.policy import Policy
from sage_cli.store.runs.run import Run, Runs

DETERMINING = {
    "rl": ("model", "prompt", "data", "rl", "rollout", "anchor", "guide", "grading"),
    "sft": ("model", "prompt", "data", "sft"),
}
"""By kind of run, the sections that its training reads."""
_NOT_READ = {"rl": ("data.sft.",), "sft": ("data.rl.",)}
NAMED_AT_MOST = 5
"""Differing settings that a message names."""

Settings = dict[str, Any]


def refuse_several_methods(side: Sequence[Policy], other: Sequence[Policy], runs: Runs) -> None:
    """Raise ConfigurationError if runs of one side differ in more than seeds.

    Seeds are those of the training, and of data and SFT of the initial policy. Policies without
    stored settings are passed over (`unchecked`). `other` is the other side, for the next step.
    """
    known = [one for one in side if method_settings(one, runs)]
    for policy in known[1:]:
        found = _differing(method_settings(known[0], runs), method_settings(policy, runs))
        if found:
            pairs = [f"sage compare {one.word} {other[0].word}" for one in side if other]
            raise ConfigurationError(
                f"{known[0].label} and {policy.label} are on one side of the comparison, which "
                f"holds training seeds of one method, and they differ in {_named(found)}",
                "compare them one by one: " + "; ".join(pairs or ["one run on each side"]),
            )


def unchecked(side: Sequence[Policy], runs: Runs) -> list[str]:
    """Return the labels of a side's policies without stored settings; none if there is only one."""
    return [one.label for one in side if len(side) > 1 and not method_settings(one, runs)]


def method_settings(policy: Policy, runs: Runs) -> Settings:
    """Return the settings that made a policy, without seeds; empty if nothing is stored of them."""
    made = {} if policy.run is None else dict(_of_run(policy.run, runs))
    if made and policy.checkpoint is not None:
        made["checkpoint"] = policy.checkpoint
    return made


def _of_run(run: Run, runs: Runs) -> Iterator[tuple[str, Any]]:
    kind = str(run.known.get("kind"))
    if kind not in DETERMINING or not (run.folder / "config.json").is_file():
        return
    yield "kind", kind
    schema, scratch = settings(), run.config.get("model", {}).get("kind") == "scratch"
    # random weights are always trained in full: the tuning is RL's
    unread = (
        *_NOT_READ[kind],
        *(("model.tuning", "model.lora.") if scratch and kind == "sft" else ()),
    )
    sections = {name: run.config[name] for name in DETERMINING[kind] if name in run.config}
    for key, value in leaves(sections):
        known = schema.get(key)
        if key.endswith(".seed") or key.startswith(unread) or (known and known.cosmetic):
            continue
        yield key, value
    parent = Run(runs.root / str(run.known.get("parent")))
    if not parent.begun:
        yield "initial policy", run.known.get("parent_weights") or run.known.get("parent")
    else:
        yield from ((f"initial policy: {key}", value) for key, value in _of_run(parent, runs))


def _differing(a: Settings, b: Settings) -> dict[str, tuple[Any, Any]]:
    """Return the settings in which two methods differ.

    Of a section that holds different members (`guide.name`) only that is named. A setting that one
    run lacks is newer than the run, which was trained as its default does.
    """
    schema = settings()
    differing = {
        key: (a.get(key), b.get(key))
        for key in dict.fromkeys((*a, *b))
        if a.get(key) != b.get(key) and ((key in a and key in b) or _key(key) not in schema)
    }
    chosen = {
        key for key in differing for name, of in UNIONS.items() if _key(key) == f"{name}.{of}"
    }
    hidden = tuple(key.rpartition(".")[0] + "." for key in chosen)
    return {k: v for k, v in differing.items() if k in chosen or not k.startswith(hidden)}


def _key(key: str) -> str:
    """Return the setting in `initial policy: sft.steps`."""
    return key.rpartition(": ")[2]


def _named(found: Mapping[str, tuple[Any, Any]]) -> str:
    names = [f"{key} ({a} and {b})" for key, (a, b) in list(found.items())[:NAMED_AT_MOST]]
    more = len(found) - len(names)
    return ", ".join(names) + (f" and {more} more: `sage runs diff`" if more else "")
