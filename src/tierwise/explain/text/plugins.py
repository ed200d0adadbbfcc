"""The page of `plugins`: what a configuration may name, package by package."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tierwise.api.codec import Raw
from tierwise.api.errors import InputError, suggestion
from tierwise.config.volcano import ARGUMENTS
from tierwise.explain.page import Page, Text, count, heading, joined, wrapped
from tierwise.explain.tables import Cell, pairs, table
from tierwise.framework.registry import InstalledPlugin
from tierwise.plugins import PLUGINS

__all__ = ["CheckedPlugin", "installed", "plugin_lines", "plugin_wire"]


class CheckedPlugin(msgspec.Struct, frozen=True):
    """A plugin that is installed: what it declares, or why it cannot be used."""

    plugin: InstalledPlugin
    points: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    problem: str = ""


def installed(names: Sequence[str] = ()) -> list[CheckedPlugin]:
    """All plugins, or those of these names: of tierwise first, then by package; InputError for a name of none."""
    for name in names:
        if name not in PLUGINS:
            raise InputError(f"unknown plugin {name}{suggestion(name, tuple(PLUGINS))}")
    own = [_checked(plugin) for name, plugin in PLUGINS.built_in.items() if not names or name in names]
    others = [_checked(plugin) for name, plugin in PLUGINS.others.items() if not names or name in names]
    return own + sorted(others, key=lambda found: (found.plugin.package, found.plugin.name))


def _checked(plugin: InstalledPlugin) -> CheckedPlugin:
    try:
        declaration = PLUGINS.declaration(plugin.name)
    except InputError as error:
        return CheckedPlugin(plugin, problem=error.message.removeprefix(f"plugin {plugin.name}: "))
    built_in = plugin.name in PLUGINS.built_in
    arguments = tuple(ARGUMENTS[plugin.name].split()) if built_in else declaration.argument_names
    return CheckedPlugin(plugin, declaration.names, arguments)


def plugin_lines(page: Page, plugins: Sequence[CheckedPlugin], *, whole: bool = False) -> list[Text]:
    """Everything that `plugins` tells people: a table for each package, or a `whole` section for each plugin."""
    sound = [found for found in plugins if not found.problem]
    packages: dict[str, list[CheckedPlugin]] = {}
    for found in sound:
        packages.setdefault(found.plugin.source, []).append(found)
    told = joined([f"{count(len(found), 'plugin')} of {package}" for package, found in packages.items()])
    lines = wrapped(Text(told, style="bold"), page.width) if told else []
    for package, members in packages.items():
        lines += (
            [line for found in members for line in _section(page, found)] if whole else _table(page, package, members)
        )
    if len(sound) < len(plugins):
        lines += heading("Cannot be used")
    for found in plugins:
        if found.problem:
            first = Text.assemble("  ", (found.plugin.name, "red"), "  ")
            lines += wrapped(Text(found.problem), page.width, first=first, rest="    ")
    return lines


def _table(page: Page, package: str, plugins: Sequence[CheckedPlugin]) -> list[Text]:
    columns = ("plugin:16", "arguments>", "extension points~24")
    rows: list[list[Cell]] = [
        [found.plugin.name, str(len(found.arguments) or ""), ", ".join(found.points)] for found in plugins
    ]
    return [*heading(package), *table(page, columns, rows)]


def _section(page: Page, found: CheckedPlugin) -> list[Text]:
    rows = [
        ("package", found.plugin.source),
        ("extension points", ", ".join(found.points)),
        ("arguments", ", ".join(found.arguments) or "none"),
    ]
    return [*heading(found.plugin.name), *pairs(page, rows)]


def plugin_wire(plugins: Sequence[CheckedPlugin]) -> Raw:
    """The same for programs."""
    return {
        "plugins": [
            {
                "name": found.plugin.name,
                "package": found.plugin.package,
                "version": found.plugin.version,
                "points": list(found.points),
                "arguments": list(found.arguments),
                **({"problem": found.problem} if found.problem else {}),
            }
            for found in plugins
        ]
    }
