"""Code of others: plug-ins of packages, and functions named as `file.py:function`.

Free of pydantic, for worker processes.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib.metadata import EntryPoint, entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING, Any

from sage_cli.errors import ConfigurationError, SageError, is_out_of_memory
from sage_cli.file_hash import read_hash

if TYPE_CHECKING:
    from pydantic import ValidationInfo

NAMED_BY = {
    "sage_cli.guides": "guide.name",
    "sage_cli.methods": "rl.algo",
    "sage_cli.samplers": "sampling.backend",
}
"""The setting that names what is registered under a group."""

AS_STORED = frozenset(NAMED_BY.values())
"""`SageConfig.model_validate(stored, context=AS_STORED)` reads a finished run's configuration
where the packages that its plug-ins come from aren't installed: nothing is to be trained. A smaller
set of settings has the others checked."""
_DIGITS = 16


@dataclass(frozen=True)
class Plugin:
    """An `object` that a package registers: under which name, and where it stands.

    `target` is its `package.module:object`, `package` the package with its version, None where
    that can't be told.
    """

    group: str
    name: str
    target: str
    package: str | None
    object: Any = None

    def __str__(self) -> str:
        where = ", ".join(filter(None, (self.target, self.package)))
        return f"{_kind(self.group)} '{self.name}' ({where})"

    def refused(self, wrong: str, next_step: str) -> ConfigurationError:
        """Return the error for an object that does not fit its group."""
        return ConfigurationError(f"{self} {wrong}", next_step)

    def blamed(
        self, doing: str = "fails", next_step: str | None = None
    ) -> AbstractContextManager[None]:
        """Name the plug-in in whatever its code raises inside the block."""
        return blamed(str(self), self.target.partition(":")[0], doing, next_step)


@contextmanager
def blamed(
    who: str, module: str, doing: str = "fails", next_step: str | None = None
) -> Iterator[None]:
    """Turn what another package's code raises inside the block into a ConfigurationError.

    It names `who`, and the line where that is one of `module`. A SageError says enough by itself,
    and what a lack of memory calls for is said where the memory is asked for.
    """
    try:
        yield
    except SageError:
        raise
    except Exception as error:  # whatever another package's code does
        if is_out_of_memory(error):
            raise
        raise ConfigurationError(
            f"{who} {doing}: {type(error).__name__}: {error}{_place(error, module)}",
            next_step or "fix the package that registers it, or choose another",
        ) from error


def named(noun: str, kind: type) -> AbstractContextManager[None]:
    """Name a class of another package in whatever it raises inside the block.

    What one of sage's own raises stays as it is: a bug of ours.
    """
    module = kind.__module__
    if module.partition(".")[0] == "sage_cli":
        return nullcontext()
    return blamed(f"{noun} {kind.__name__} ({module})", module)


def plugin_names(group: str) -> tuple[str, ...]:
    """Return names that installed packages register under `group`, in alphabetical order."""
    return _names(group, entry_points, tuple(sys.path))


@cache
def _names(group: str, read: Callable[..., Any], _path: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names, read once for as long as packages are looked for in the same folders."""
    return tuple(sorted({point.name for point in read(group=group)}))


def require_name(kind: str, name: str, names: Sequence[str]) -> None:
    """Raise ValueError, which lists those there are, where no `kind` is called `name`."""
    if name not in names:
        raise ValueError(f"unknown {kind} '{name}'; known: {', '.join(names)}")


def is_to_be_checked(info: ValidationInfo, group: str) -> bool:
    """Return True if names of `group` must be registered; stored configurations are exempt."""
    return NAMED_BY[group] not in (info.context or ())


def load_plugin(group: str, name: str) -> Plugin:
    """Load the object that is registered under `name`.

    Raises ConfigurationError where nothing is, where two packages do, or where it can't be
    imported.
    """
    points = [point for point in entry_points(group=group) if point.name == name]
    if not points:
        raise ConfigurationError(
            f"no installed package registers the {_kind(group)} '{name}' "
            f"(entry-point group '{group}')",
            "install the package that it comes from, or choose another: --set "
            f"{NAMED_BY[group]}=NAME",
        )
    (point, *others) = points
    package = _package(point)
    if others:
        packages = " and by ".join(_package(entry) or entry.value for entry in points)
        raise ConfigurationError(
            f"{_kind(group)} '{name}' is registered twice, by {packages}", "uninstall one of them"
        )
    plugin = Plugin(group, name, point.value, package)
    with plugin.blamed("can't be imported", "fix or reinstall the package, or uninstall it"):
        return replace(plugin, object=point.load())


def in_words(options: Mapping[str, Any]) -> str:
    """`value=1.2, seed=3`, as messages name the options that a plug-in was given."""
    return ", ".join(f"{key}={value!r}" for key, value in options.items()) or "(none)"


def _kind(group: str) -> str:
    return group.rpartition(".")[2].removesuffix("s")


def _package(point: EntryPoint) -> str | None:
    return f"{point.dist.name} {point.dist.version}" if point.dist else None


def _place(error: Exception, module: str) -> str:
    """` (mine.py, line 7)`: where the module stood when it failed."""
    file = getattr(sys.modules.get(module), "__file__", None)
    lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == file]
    return f" ({Path(str(file)).name}, line {lines[-1]})" if lines else ""


def names_code(name: object) -> bool:
    """Return True if a name stands for a function of one's own, not for something registered."""
    return isinstance(name, str) and ":" in name


@dataclass(frozen=True)
class OwnFunction:
    """The function `name` of the file `source`."""

    source: str
    name: str

    @classmethod
    def parse(cls, text: str) -> OwnFunction:
        """Return the function that `file.py:function` names."""
        source, _, name = text.rpartition(":")
        return cls(source, name)

    def __str__(self) -> str:
        return f"{self.source}:{self.name}"

    @property
    def label(self) -> str:
        """Its name without the folders of its file, so that it doesn't depend on where that is."""
        return f"{Path(self.source).name}:{self.name}"

    @cached_property
    def file(self) -> Path:
        """Its file. Raises ConfigurationError if there is none."""
        path = Path(self.source)
        with suppress(RuntimeError):  # there is no home of an unknown user
            path = path.expanduser()
        if path.suffix != ".py" or not path.is_file():
            raise ConfigurationError(
                f"{self}: there is no Python file {path}",
                "give FILE.py:FUNCTION, with a path from the folder where the command is "
                "typed; for a function of a package, write a file that imports it",
            )
        return path

    @property
    def identity(self) -> str:
        """Its label with the hash of its file's bytes; what the file imports is not part of it."""
        return f"{self.label} sha256:{read_hash(self.file)[:_DIGITS]}"

    def require(self) -> None:
        """Raise ConfigurationError unless its file is there and defines it; nothing is run."""
        file = self.file
        try:
            tree = ast.parse(file.read_bytes(), str(file))
        except (SyntaxError, ValueError) as error:
            line = getattr(error, "lineno", None)
            raise ConfigurationError(
                f"{self} can't be read as Python: {error.args[0]}"
                + (f" ({file.name}, line {line})" if line else ""),
                "fix the file",
            ) from error
        defined = dict.fromkeys(_defined(tree))
        if self.name not in defined and "*" not in defined:
            public = ", ".join(name for name in defined if not name.startswith("_"))
            raise ConfigurationError(
                f"{file} defines no '{self.name}'", f"it defines {public or 'nothing'}"
            )

    def load(self) -> Callable[..., Any]:
        """Run its file, once in a process, and return it.

        Modules beside the file can be imported by it. Raises ConfigurationError, with the line, for
        what the file raises, and for what is not a function.
        """
        self.require()
        module_name = self.module
        try:
            with blamed(str(self), module_name, "can't be imported", "fix the file"):
                if module_name not in sys.modules:
                    _run_file(self.file, module_name)
        except ConfigurationError:
            sys.modules.pop(module_name, None)
            raise
        loaded = getattr(sys.modules[module_name], self.name, None)
        if not callable(loaded):
            raise ConfigurationError(
                f"{self} is of type {type(loaded).__name__}, not a function", "give a function"
            )
        return loaded  # type: ignore[no-any-return]

    @property
    def module(self) -> str:
        """The name under which its module is loaded."""
        return f"sage_own_{self.file.stem}_{read_hash(self.file)[:_DIGITS]}"


def _run_file(file: Path, module_name: str) -> None:
    """Run a file as the module `module_name`, with its folder behind all others on the path."""
    folder = str(file.parent.resolve())
    if folder not in sys.path:
        sys.path.append(folder)
    spec = spec_from_file_location(module_name, file.resolve())
    assert spec is not None
    assert spec.loader is not None
    sys.modules[module_name] = module = module_from_spec(spec)
    spec.loader.exec_module(module)


def _defined(node: ast.AST) -> list[str]:
    """Return the names that the top level binds in a node; `*` for those of a star import."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.Import() | ast.ImportFrom():
            return [alias.asname or alias.name for alias in node.names]
        case ast.Name(id=name, ctx=ast.Store()):
            return [name]
        case ast.Lambda() | ast.comprehension():
            return []
    return [name for child in ast.iter_child_nodes(node) for name in _defined(child)]
