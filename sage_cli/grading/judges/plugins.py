"""Judges that other packages register under the entry-point group `sage_cli.judges`."""

from __future__ import annotations

from sage_cli.config.judging import JUDGES_GROUP
from sage_cli.config.plugins import load_plugin
from sage_cli.grading.judges.judge import Judge

_MEND = "register a subclass of sage_cli.grading.judges.Judge that defines quick and full"


def plugin_judge(name: str) -> Judge:
    """The judge that a package registers as `name`.

    Raises ConfigurationError when none or two do, or when what is registered can't be imported,
    can't be made without arguments or is no Judge.
    """
    plugin = load_plugin(JUDGES_GROUP, name)
    missing = sorted(getattr(plugin.object, "__abstractmethods__", ()))
    if missing:
        raise plugin.refused(f"doesn't define {' and '.join(missing)}", _MEND)
    with plugin.blamed("can't be made without arguments", _MEND):
        made = plugin.object()
    if not isinstance(made, Judge):
        raise plugin.refused(f"makes a {type(made).__name__} and not a Judge", _MEND)
    return made
