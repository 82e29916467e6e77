"""Whether the installed packages are the versions that this release was tested with."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, requires, version

from packaging.requirements import Requirement

from sage_cli.errors import ConfigurationError

DISTRIBUTION = "sage-rlvr"


def require_tested_versions(distribution: str = DISTRIBUTION) -> str:
    """Say that all requirements of `distribution` are met, and by what.

    What only an extra asks for counts where it is installed. Raises ConfigurationError that names
    the packages of other versions, and those that are missing.
    """
    try:
        asked = [Requirement(text) for text in requires(distribution) or ()]
    except PackageNotFoundError:
        raise ConfigurationError(
            f"{distribution} isn't installed as a package, so that nothing says which versions it "
            "was tested with",
            "pip install -e . -c constraints.txt in its checkout",
        ) from None
    wrong, met = [], {}
    for one in asked:
        found = _installed(one.name)
        if found is None and one.marker is not None and "extra" in str(one.marker):
            continue
        if found is None or not one.specifier.contains(found, prereleases=True):
            wrong.append(f"{one.name} {found or 'is missing'} (tested: {one.specifier})")
        elif str(one.specifier).startswith(("==", "~=")):
            met[one.name] = found
    if wrong:
        raise ConfigurationError(
            ", ".join(wrong),
            f"pip install {distribution} -c constraints.txt installs the tested versions",
        )
    return ", ".join(f"{name} {found}" for name, found in met.items())


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
