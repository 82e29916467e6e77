"""Every method by name: the modules of this package, and what other packages register."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Literal, get_args, get_origin

from pydantic import ConfigDict, ValidationError, ValidationInfo
from pydantic_core import InitErrorDetails, PydanticCustomError

import sage_cli.methods as package
from sage_cli.errors import ConfigurationError
from sage_cli.methods.method import Method
from sage_cli.methods.policy_gradient import PolicyGradient
from sage_cli.settings.plugins import NAMED_BY, Plugin, load_plugin, plugin_names

METHODS_GROUP = "sage_cli.methods"


class StoredMethod(PolicyGradient):
    """The settings of a finished run whose method is not installed here: read, never trained."""

    model_config = ConfigDict(extra="allow")


@cache
def built_in() -> dict[str, type[Method]]:
    """Return the methods of this package by name, in alphabetical order.

    Raises ConfigurationError where two classes claim one name.
    """
    found: dict[str, type[Method]] = {}
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        for value in vars(import_module(module.name)).values():
            if not _is_method(value) or not value.__module__.startswith(module.name):
                continue
            other = found.setdefault(value.name(), value)
            if other is not value:
                raise ConfigurationError(
                    f"method '{value.name()}' is claimed by {other.__module__} and by "
                    f"{value.__module__}",
                    "give one of them another name",
                )
    return dict(sorted(found.items()))


@cache
def method_in_file(name: str) -> type[Method] | None:
    """Return the method of the module that is called like it, without importing the others.

    A command that trains one method should not wait for the classes of twenty. None if the module
    has another name, as that of 80-20.
    """
    stem = name.replace("-", "_")
    if not stem.isidentifier():
        return None
    module = f"{package.__name__}.{stem}"
    try:
        values = vars(import_module(module)).values()
    except ModuleNotFoundError as error:
        if error.name == module:
            return None
        raise
    return next((value for value in values if _is_method(value) and value.name() == name), None)


def method_names() -> tuple[str, ...]:
    """Return what `--algo` takes: built-in methods, then those of other packages."""
    return tuple(dict.fromkeys((*built_in(), *plugin_names(METHODS_GROUP))))


def method_classes() -> dict[str, type[Method]]:
    """Return every method by name; those of other packages that can't be loaded are left out."""
    found = dict(built_in())
    for name in plugin_names(METHODS_GROUP):
        try:
            found[name] = _registered(name)
        except ConfigurationError:
            continue
    return found


def every_method() -> dict[str, type[Method]]:
    """Return every method by name. Raises ConfigurationError for one that can't be loaded."""
    return {name: method_class(name) for name in method_names()}


def method_class(name: object, info: ValidationInfo | None = None) -> type[Method]:
    """Return the settings class of the method `name`.

    Raises ConfigurationError, with the plug-in's name, for one that another package registers
    wrongly, and ValidationError for a name that nobody has.
    """
    if isinstance(name, str):
        if name in plugin_names(METHODS_GROUP):
            return _registered(name)
        if method := method_in_file(name) or built_in().get(name):
            return method
        if info is not None and NAMED_BY[METHODS_GROUP] in (info.context or ()):
            return StoredMethod
    known = ", ".join(f"'{one}'" for one in method_names())
    unknown = PydanticCustomError("literal_error", "unknown method", {"expected": known})
    details = InitErrorDetails(type=unknown, loc=("algo",), input=name)
    raise ValidationError.from_exception_data("Method", [details])


@contextmanager
def blaming(method: Method) -> Iterator[str]:
    """Give what messages call the method; name a plug-in in whatever its formulas raise."""
    name = f"method '{method.algo}'"
    if type(method).__module__.partition(".")[0] == package.__name__.partition(".")[0]:
        yield name
        return
    plugin = load_plugin(METHODS_GROUP, method.algo)
    with plugin.blamed():
        yield str(plugin)


def _registered(name: str) -> type[Method]:
    plugin = load_plugin(METHODS_GROUP, name)
    if name in built_in():
        raise plugin.refused(
            f"claims the name of the method in {built_in()[name].__module__}",
            "give it another name, or uninstall the package",
        )
    return _checked(plugin, name)


def _checked(plugin: Plugin, name: str) -> type[Method]:
    method = plugin.object
    if not (isinstance(method, type) and issubclass(method, Method)):
        raise plugin.refused(
            f"is {method!r}, which has no settings class",
            "register a subclass of sage_cli.methods.policy_gradient.PolicyGradient",
        )
    if not _is_method(method) or method.name() != name:
        raise plugin.refused(
            "does not say its own name", f'give the class the setting algo: Literal["{name}"]'
        )
    return method


def _is_method(value: object) -> bool:
    """Return True for a class of settings with a name of its own in `algo`."""
    if not (isinstance(value, type) and issubclass(value, Method)):
        return False
    field = value.model_fields["algo"]
    return get_origin(field.annotation) is Literal and get_args(field.annotation) == (
        field.default,
    )
