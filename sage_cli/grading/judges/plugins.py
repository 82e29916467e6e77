"""Judges that other packages register under the entry-point group `sage_cli.judges`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from sage_cli.config.judging import JUDGES_GROUP
from sage_cli.errors import ConfigurationError
from sage_cli.grading.judges.judge import Judge


@dataclass(frozen=True)
class Plugin:
    """A registered judge, and the package and version that it comes from."""

    judge: Judge
    package: str


@cache
def load_plugin(name: str) -> Plugin | None:
    """The judge that a package registers as `name`, None where there is none.

    Raises ConfigurationError when two packages do, or when what is registered can't be imported,
    can't be made without arguments or is no Judge.
    """
    found = tuple(entry_points(group=JUDGES_GROUP, name=name))
    if not found:
        return None
    if len(found) > 1:
        raise ConfigurationError(
            f"judge '{name}' is registered twice, by {' and by '.join(map(_package, found))}",
            "uninstall one of them",
        )
    (point,) = found
    try:
        make = point.load()
        missing = sorted(getattr(make, "__abstractmethods__", ()))
        made = None if missing else make()
    except Exception as error:  # whatever the plug-in's module does
        raise _refused(point, f"fails with {type(error).__name__}: {error}") from error
    if missing:
        raise _refused(point, f"doesn't define {' and '.join(missing)}")
    if not isinstance(made, Judge):
        raise _refused(point, f"makes a {type(made).__name__} and not a Judge")
    return Plugin(made, _package(point))


def _refused(point: EntryPoint, what: str) -> ConfigurationError:
    return ConfigurationError(
        f"judge '{point.name}' of {_package(point)}, registered as {point.value}, {what}",
        "register a subclass of sage_cli.grading.judges.Judge that defines quick and full",
    )


def _package(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.value
