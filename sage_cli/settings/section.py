"""Sections of the configuration: frozen, checked, and unions with one class a name."""

from __future__ import annotations

import ast
import inspect
import textwrap
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar, get_args, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from sage_cli.errors import ConfigurationError
from sage_cli.settings.former_names import FORMER, Former, renew
from sage_cli.settings.own_code import Plugin, is_to_be_checked, load_plugin, named, plugin_names

COSMETIC: dict[str, Any] = {"cosmetic": True}
"""Marks a field that changes no result: `Field(50, ge=1, json_schema_extra=COSMETIC)`."""

WHERE_SET: dict[str, Any] = {"where_set": True}
"""Marks a field that is part of a run's identity only where it differs from its default, so that
runs of before there was such a setting keep theirs."""
Listed = Annotated[
    tuple[str, ...], BeforeValidator(lambda given: (given,) if isinstance(given, str) else given)
]
"""Names; a single one may stand without a list."""
_Root = TypeVar("_Root", bound="Extensible")


@dataclass(frozen=True)
class ReadWith:
    """A choice on which it depends whether anything reads some settings.

    `setting` is the beginning of their dotted names. They are read where `choice` is `reading`, or
    with `idle` where it is none of these values. `refused`: such a value is an error even in a
    preset, because the settings serve that one choice alone.
    """

    setting: str
    choice: str
    reading: Any
    idle: tuple[Any, ...] | None = None
    refused: bool = False

    def value(self, config: BaseModel | Mapping[str, Any]) -> Any:
        """Return the value of the choice; None where a stored configuration makes none."""
        inside: Any = config
        for part in self.choice.split("."):
            stored = isinstance(inside, Mapping)
            inside = inside.get(part) if stored else getattr(inside, part, None)
        return inside

    def is_unmet(self, config: BaseModel | Mapping[str, Any]) -> bool:
        """Return True if nothing reads the settings under this configuration."""
        value = self.value(config)
        return value != self.reading if self.idle is None else value in self.idle


class Section(BaseModel):
    """A noun of the schema. A class's defaults are the paper's setting (Tables 7 and 8)."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, validate_default=True
    )

    @classmethod
    def members(cls) -> tuple[type[Section], ...]:
        """Return the classes that a section of this type may hold; more than one in a union."""
        return (cls,)

    @classmethod
    def former(cls) -> tuple[Former, ...]:
        """Return what earlier releases called its settings and their values."""
        return _former(cls)

    @model_validator(mode="before")
    @classmethod
    def _take_former_names(cls, given: Any) -> Any:
        rows = cls.former()
        return renew(given, rows) if rows and isinstance(given, dict) else given

    def determinants(self) -> dict[str, Any]:
        """Return the settings that decide a result as plain JSON values: all but cosmetic ones.

        What was renamed has its former name and value, so that stored runs keep their hashes.
        """
        plain, usual = self.model_dump(mode="json"), usual_where_set(type(self))
        names = {}
        for row in self.former():
            formerly = {today: former for former, today in row.values.items()}
            plain[row.key] = formerly.get(plain[row.key], plain[row.key])
            names[row.key] = row.name or row.key
        return {
            names.get(name, name): _determinants(getattr(self, name), plain[name])
            for name in _deciding(type(self))
            if name not in usual or getattr(self, name) != usual[name]
        }


def is_cosmetic(section: type[BaseModel], name: str) -> bool:
    """Return True if the schema marks a section's field `name` as changing no result."""
    return _marked(section, name, "cosmetic")


@cache
def _deciding(section: type[BaseModel]) -> tuple[str, ...]:
    return tuple(name for name in section.model_fields if not is_cosmetic(section, name))


@cache
def usual_where_set(section: type[BaseModel]) -> dict[str, Any]:
    """Return field -> default of those that are part of an identity only where they differ."""
    return {
        name: field.get_default(call_default_factory=True)
        for name, field in section.model_fields.items()
        if _marked(section, name, "where_set")
    }


@cache
def _former(section: type[BaseModel]) -> tuple[Former, ...]:
    classes = {kind.__name__ for kind in section.__mro__}
    return tuple(row for row in FORMER if row.section in classes)


def _marked(section: type[BaseModel], name: str, mark: str) -> bool:
    extra = section.model_fields[name].json_schema_extra
    return isinstance(extra, dict) and bool(extra.get(mark))


def _determinants(value: Any, plain: Any) -> Any:
    if isinstance(value, Section):
        return value.determinants()
    if isinstance(value, tuple):
        return [_determinants(*pair) for pair in zip(value, plain, strict=True)]
    return plain


def docstrings(model: type[BaseModel]) -> dict[str, str]:
    """Attribute -> the string that stands below it, in `model` and what it inherits from."""
    strings: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if issubclass(base, BaseModel) and base is not BaseModel:
            strings |= _own_docstrings(base)
    return strings


@cache
def _own_docstrings(model: type[BaseModel]) -> dict[str, str]:
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    assert isinstance(tree, ast.ClassDef)
    return {
        line.target.id: inspect.cleandoc(below.value.value).replace("\n", " ")
        for line, below in zip(tree.body, tree.body[1:], strict=False)
        if isinstance(line, ast.AnnAssign)
        and isinstance(line.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(below.value.value, str)
    }


class Extensible(Section):
    """A section of which each name has a class, with settings of its own.

    The root of such a union is the class that sets `package`: the package of its classes, and at
    the same time the entry-point group in which other packages register theirs. A class belongs to
    the union under the name that its field `tag` has as its only value and default, as in
    `name: Literal["branch"] = "branch"`.
    """

    package: ClassVar[str]
    tag: ClassVar[str] = "name"
    read_with: ClassVar[tuple[ReadWith, ...]] = ()
    """On which choices it depends whether anything reads some of its settings."""

    @model_validator(mode="wrap")
    @classmethod
    def _choose(
        cls, given: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo
    ) -> Any:
        if not cls._is_root() or not isinstance(given, Mapping):
            return handler(given)
        name = given.get(cls.tag, cls.model_fields[cls.tag].default)
        try:
            chosen = cls.named(name)
        except (ConfigurationError, ValidationError):
            if not isinstance(name, str) or is_to_be_checked(info, cls.package):
                raise
            chosen = cls.stored()
        return _validated(chosen, given, info)

    @classmethod
    def named(cls, name: object) -> type[Self]:
        """Return the class of `name`.

        Raises ValidationError for a name that nobody has, and ConfigurationError for a plug-in
        that can't be used, with its package.
        """
        if isinstance(name, str):
            if name in plugin_names(cls.package):
                return _registered(cls, name)
            if kind := in_file(cls, name) or built_in(cls).get(name):
                return kind
        names = ", ".join(f"'{name}'" for name in cls.names())
        unknown = PydanticCustomError("literal_error", "unknown name", {"expected": names})
        details = InitErrorDetails(type=unknown, loc=(cls.tag,), input=name)
        raise ValidationError.from_exception_data(cls.__name__, [details])

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return every name of the union: the package's own, then those of other packages."""
        return tuple(dict.fromkeys((*built_in(cls), *plugin_names(cls.package))))

    @classmethod
    @abstractmethod
    def stored(cls) -> type[Self]:
        """Return the class for the settings of a finished run whose plug-in can't be loaded."""

    @classmethod
    def defect(cls) -> tuple[str, str] | None:
        """Return what is wrong with a plug-in's class and the next step; None if it is usable."""
        return None

    @classmethod
    def members(cls) -> tuple[type[Section], ...]:
        """Return the union's classes. Plug-ins that can't be loaded are left out."""
        if not cls._is_root():
            return (cls,)
        classes = dict(built_in(cls))
        for name in plugin_names(cls.package):
            try:
                classes[name] = _registered(cls, name)
            except ConfigurationError:
                continue
        return tuple(classes.values())

    @classmethod
    def _is_root(cls) -> bool:
        return "package" in vars(cls)


@cache
def built_in(root: type[_Root]) -> dict[str, type[_Root]]:
    """Return the classes of the union `root` in its own package, by name in alphabetical order.

    Raises ConfigurationError if two of them claim one name.
    """
    classes: dict[str, type[_Root]] = {}
    for path in _modules(root):
        for kind in vars(import_module(path)).values():
            # an imported class belongs to the module that defines it
            if not _is_member(root, kind) or kind.__module__ != path:
                continue
            name = kind.model_fields[root.tag].default
            if name in classes:
                raise ConfigurationError(
                    f"{root.__name__.lower()} '{name}' is claimed by {classes[name].__module__} "
                    f"and by {path}",
                    "give one of them another name",
                )
            classes[name] = kind
    return dict(sorted(classes.items()))


@cache
def in_file(root: type[_Root], name: str) -> type[_Root] | None:
    """Return the class of the package that has the name; only its own module is imported."""
    paths = (path for path, text in _modules(root).items() if f'["{name}"]' in text)
    kinds = (kind for path in paths for kind in vars(import_module(path)).values())
    members = (kind for kind in kinds if _is_member(root, kind))
    return next((kind for kind in members if kind.model_fields[root.tag].default == name), None)


def _modules(root: type[Extensible]) -> dict[str, str]:
    """Return the modules that hold classes of the union, with their text; none is imported."""
    folders = map(Path, import_module(root.package).__path__)
    files = (file for folder in folders for file in sorted(folder.glob("*.py")))
    texts = {f"{root.package}.{file.stem}": file.read_text(encoding="utf-8") for file in files}
    return {path: text for path, text in texts.items() if f"{root.tag}: Literal[" in text}


def _registered(root: type[_Root], name: str) -> type[_Root]:
    """Return the class that another package registers under `name`, checked."""
    plugin: Plugin = load_plugin(root.package, name)
    kind, path = plugin.object, f"{root.__module__}.{root.__name__}"
    if name in built_in(root):
        raise plugin.refused(
            f"claims the name of the {root.__name__.lower()} in {built_in(root)[name].__module__}",
            "register it under another name, or uninstall the package",
        )
    if not (isinstance(kind, type) and issubclass(kind, root)):
        raise plugin.refused(
            f"is not a subclass of {path}: it is {kind!r}, which has no settings class",
            f"register a subclass of {path}",
        )
    if not _is_member(root, kind) or kind.model_fields[root.tag].default != name:
        raise plugin.refused(
            "does not have the name under which it is registered, or does not say its own name",
            f'give the class the setting {root.tag}: Literal["{name}"] = "{name}"',
        )
    if defect := kind.defect():
        raise plugin.refused(*defect)
    return kind


def _is_member(root: type[Extensible], kind: object) -> bool:
    """Return True for a class of the union `root` that has a name of its own."""
    if not (isinstance(kind, type) and issubclass(kind, root)):
        return False
    field = kind.model_fields[root.tag]
    names = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
    return names == (field.default,)


def _validated(kind: type[Extensible], given: Any, info: ValidationInfo) -> Extensible:
    """Return the settings `given` of the class `kind`; whatever its own checks raise names it."""
    with named(f"settings of {kind.package.rpartition('.')[2].removesuffix('s')}", kind):
        try:
            return kind.model_validate(given, context=info.context)
        except ValidationError as error:
            wrong = error
    raise wrong
