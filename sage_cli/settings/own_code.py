"""Functions of one's own, named as `file.py:function` or `package.module:function`.

Free of pydantic, for worker processes. Naming, checking and hashing a function runs no code of its
file; `load` does.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from sage_cli.errors import ConfigurationError
from sage_cli.file_hash import file_hash
from sage_cli.settings.plugins import blamed

_DIGITS = 16


def names_code(name: object) -> bool:
    """Return True if a name stands for a function of one's own, not for something registered."""
    return isinstance(name, str) and ":" in name


@dataclass(frozen=True)
class OwnFunction:
    """The function `name` of a file, or of a module of the environment."""

    place: str
    name: str

    @classmethod
    def of(cls, text: str) -> OwnFunction:
        """Return the function that `file.py:function` or `package.module:function` names."""
        place, _, name = text.rpartition(":")
        return cls(place, name)

    def __str__(self) -> str:
        return f"{self.place}:{self.name}"

    @property
    def label(self) -> str:
        """Its name without the folders of its file, so that it doesn't depend on where that is."""
        return f"{Path(self.place).name if self.is_file else self.place}:{self.name}"

    @property
    def is_file(self) -> bool:
        """Return True if it is named by a file."""
        return self.place.endswith(".py")

    @cached_property
    def file(self) -> Path:
        """The file of its source. Raises ConfigurationError if there is none."""
        if self.is_file:
            path = Path(self.place)
            with suppress(RuntimeError):  # there is no home of an unknown user
                path = path.expanduser()
            if not path.is_file():
                raise ConfigurationError(
                    f"{self}: there is no file {path}",
                    "correct the path: it is read from the folder where the command is typed",
                )
            return path
        source = self._module_file()
        if source is None or source.suffix != ".py":
            raise ConfigurationError(
                f"{self}: there is no Python module '{self.place}'",
                "name a file as file.py:function, or install the package, or add its folder to "
                "PYTHONPATH",
            )
        return source

    @property
    def identity(self) -> str:
        """Its label with the hash of its file's bytes; what the file imports is no part of it."""
        return f"{self.label} sha256:{file_hash(self.file)[:_DIGITS]}"

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
                "correct the file",
            ) from error
        defined = dict.fromkeys(_defined(tree))
        if self.name not in defined and "*" not in defined:
            known = ", ".join(name for name in defined if not name.startswith("_"))
            raise ConfigurationError(
                f"{file} defines no '{self.name}'", f"it defines {known or 'nothing'}"
            )

    def load(self) -> Callable[..., Any]:
        """Run its file, once in a process, and return it.

        Modules beside the file can be imported by it. Raises ConfigurationError, with the line, for
        what the file raises, and for what is no function.
        """
        self.require()
        module_name = self.module
        try:
            with blamed(str(self), module_name, "can't be imported", "correct the file"):
                if not self.is_file:
                    import_module(module_name)
                elif module_name not in sys.modules:
                    _run_file(self.file, module_name)
        except ConfigurationError:
            sys.modules.pop(module_name, None)
            raise
        found = getattr(sys.modules[module_name], self.name, None)
        if not callable(found):
            raise ConfigurationError(
                f"{self} is a {type(found).__name__} and no function", "name a function"
            )
        return found  # type: ignore[no-any-return]

    @property
    def module(self) -> str:
        """The name under which its module is loaded."""
        if not self.is_file:
            return self.place
        return f"sage_own_{self.file.stem}_{file_hash(self.file)[:_DIGITS]}"

    def _module_file(self) -> Path | None:
        """Return the source of the module `place`; no package around it is run.

        So a package that changes its `__path__` when it is run is taken as it lies on the disk.
        """
        first, *inner = self.place.split(".")
        try:
            spec = find_spec(first)
        except (ImportError, ValueError):
            return None
        if spec is None or not inner:
            return Path(spec.origin) if spec is not None and spec.origin is not None else None
        *packages, module = inner
        folders = [Path(one, *packages) for one in spec.submodule_search_locations or ()]
        sources = (
            one / name for one in folders for name in (f"{module}/__init__.py", f"{module}.py")
        )
        return next((source for source in sources if source.is_file()), None)


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
            return [one.asname or one.name for one in node.names]
        case ast.Name(id=name, ctx=ast.Store()):
            return [name]
        case ast.Lambda() | ast.comprehension():
            return []
    return [name for child in ast.iter_child_nodes(node) for name in _defined(child)]
