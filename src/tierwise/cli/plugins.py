"""`tierwise plugins`: which plugins a configuration may name here, and where they come from."""

from __future__ import annotations

import click

from tierwise.cli.options import Format, argument, verb

__all__ = ["plugins"]


@verb("""
  tierwise plugins
  tierwise plugins gang binpack
  tierwise plugins -o json | jq -r '.plugins[] | select(.package != "tierwise").name'
""")
def plugins(*, names: tuple[str, ...] = argument("[NAME]..."), output: Format) -> None:
    """List the installed plugins with their packages, the extension points they take part in, and their arguments.

    With names, shows those plugins in full. Plugins come with tierwise, and with any package that has an entry point
    in the group tierwise.plugins. Each is imported and checked as a configuration that names it would be; the exit
    status is 1 where one cannot be used.
    """
    from tierwise.explain.text.plugins import installed, plugin_lines, plugin_wire

    installed_plugins = installed(names)
    output.show(
        lambda: plugin_wire(installed_plugins),
        lambda page: plugin_lines(page, installed_plugins, as_sections=bool(names)),
    )
    if any(plugin.problem for plugin in installed_plugins):
        click.get_current_context().exit(1)
