"""What determines the problems and demonstrations that a configuration names."""

from __future__ import annotations

from typing import Any

from sage_cli.problems.demonstrations import demonstrator, wanted
from sage_cli.problems.load import benchmark_names
from sage_cli.problems.problem import Generated
from sage_cli.problems.registry import Member, members, require_known_revisions, trained_on
from sage_cli.problems.sources import source_identity
from sage_cli.settings.data import DataSection, FieldsSection
from sage_cli.settings.sft import SftSection


def problems_identity(
    names: str,
    data: DataSection,
    fields: FieldsSection | None = None,
    limit: int | None = None,
    split: str | None = None,
) -> dict[str, Any]:
    """Return the determinants of `load_problems`. Raises DataError as it does."""
    rows = [_members(name, data, fields, split) for name in benchmark_names(names)]
    return {"problems": rows, "limit": limit}


def training_identity(data: DataSection) -> dict[str, Any]:
    """Return the determinants of `load_training_problems`."""
    source = data.rl
    identity = problems_identity(
        trained_on(source.name), data, source.fields, source.limit, source.split
    )
    return {**identity, "numeric_only": source.numeric_only}


def demonstrations_identity(data: DataSection, sft: SftSection) -> dict[str, Any]:
    """Return the determinants of `load_demonstrations`, without the tokenizer's."""
    source = data.sft
    generator = demonstrator(data)
    if generator is not None:
        order = {"count": wanted(data, sft), "batch_size": sft.batch_size}
        return {"demonstrations": generator.identity(), **order}
    share = source.max_prompt_share
    return {
        "demonstrations": _members(source.name, data, source.fields, source.split),
        "limit": source.limit,
        "numeric_only": source.numeric_only,
        "longest": None if share == 1 else [source.measured, share * sft.max_length],
    }


def _members(
    name: str, data: DataSection, fields: FieldsSection | None, split: str | None
) -> list[dict[str, Any]]:
    require_known_revisions(data.revisions)
    return [_member(member, data, fields) for member in members(name, split)]


def _member(member: Member, data: DataSection, fields: FieldsSection | None) -> dict[str, Any]:
    if isinstance(member, Generated):
        return {**member.made(data).identity(), "split": member.split}
    return source_identity(member, data, fields)
