"""Every plugin there is: those of tierwise, of other packages that are installed, and of the example package."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import import_module

from tests.support.commands import EXAMPLES

from tierwise.framework.declaration import check_plugin
from tierwise.framework.extension import Factory
from tierwise.plugins import PLUGINS

__all__ = ["OWN_PLUGIN", "example_plugins", "plugin_table", "plugins_at"]

OWN_PLUGIN = EXAMPLES / "11-your-own-plugin"


def _entries() -> dict[str, str]:
    project = tomllib.loads((OWN_PLUGIN / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found: dict[str, str] = project["entry-points"]["tierwise.plugins"]
    return found


@cache
def example_plugins() -> dict[str, Factory]:
    """What the example package offers, as its entry points name it, without an installation."""
    sys.path.insert(0, str(OWN_PLUGIN))
    try:
        entries = ((name, target.split(":")) for name, target in _entries().items())
        return {name: getattr(import_module(module), attribute) for name, (module, attribute) in entries}
    finally:
        sys.path.remove(str(OWN_PLUGIN))


def plugin_table() -> Mapping[str, Factory]:
    """All of them by name; where the example is installed, perhaps with changes, that is the one that counts."""
    installed = dict(PLUGINS)
    return {**installed, **(example_plugins() if not set(_entries()) <= set(installed) else {})}


def plugins_at(*points: type) -> list[str]:
    """The plugins that declare one of these points."""
    return sorted(
        name for name, factory in plugin_table().items() if set(points) & set(check_plugin(name, factory).points)
    )
