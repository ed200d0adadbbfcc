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
    built_in = [_checked(plugin) for name, plugin in PLUGINS.built_in.items() if not names or name in names]
    from_packages = [_checked(plugin) for name, plugin in PLUGINS.others.items() if not names or name in names]
    return built_in + sorted(from_packages, key=lambda checked: (checked.plugin.package, checked.plugin.name))


def _checked(plugin: InstalledPlugin) -> CheckedPlugin:
    try:
        declaration = PLUGINS.declaration(plugin.name)
    except InputError as error:
        return CheckedPlugin(plugin, problem=error.message.removeprefix(f"plugin {plugin.name}: "))
    built_in = plugin.name in PLUGINS.built_in
    arguments = tuple(ARGUMENTS[plugin.name].split()) if built_in else declaration.argument_names
    return CheckedPlugin(plugin, declaration.names, arguments)


def plugin_lines(page: Page, plugins: Sequence[CheckedPlugin], *, as_sections: bool = False) -> list[Text]:
    """Everything that `plugins` tells people: a table for each package, or a `as_sections` section for each plugin."""
    sound = [checked for checked in plugins if not checked.problem]
    packages: dict[str, list[CheckedPlugin]] = {}
    for checked in sound:
        packages.setdefault(checked.plugin.source, []).append(checked)
    summary = joined([f"{count(len(checked), 'plugin')} of {package}" for package, checked in packages.items()])
    lines = wrapped(Text(summary, style="bold"), page.width) if summary else []
    for package, members in packages.items():
        lines += (
            [line for checked in members for line in _section(page, checked)]
            if as_sections
            else _table(page, package, members)
        )
    if len(sound) < len(plugins):
        lines += heading("Cannot be used")
    for checked in plugins:
        if checked.problem:
            lead = Text.assemble("  ", (checked.plugin.name, "red"), "  ")
            lines += wrapped(Text(checked.problem), page.width, first=lead, rest="    ")
    return lines


def _table(page: Page, package: str, plugins: Sequence[CheckedPlugin]) -> list[Text]:
    columns = ("plugin:16", "arguments>", "extension points~24")
    rows: list[list[Cell]] = [
        [checked.plugin.name, str(len(checked.arguments) or ""), ", ".join(checked.points)] for checked in plugins
    ]
    return [*heading(package), *table(page, columns, rows)]


def _section(page: Page, checked: CheckedPlugin) -> list[Text]:
    rows = [
        ("package", checked.plugin.source),
        ("extension points", ", ".join(checked.points)),
        ("arguments", ", ".join(checked.arguments) or "none"),
    ]
    return [*heading(checked.plugin.name), *pairs(page, rows)]


def plugin_wire(plugins: Sequence[CheckedPlugin]) -> Raw:
    """The installed plugins with their points and arguments, as JSON."""
    return {
        "plugins": [
            {
                "name": checked.plugin.name,
                "package": checked.plugin.package,
                "version": checked.plugin.version,
                "points": list(checked.points),
                "arguments": list(checked.arguments),
                **({"problem": checked.problem} if checked.problem else {}),
            }
            for checked in plugins
        ]
    }
