"""`tierwise plugins`: which plugins a configuration may name here, and where they come from."""

from __future__ import annotations

import click

from tierwise.cli import options

__all__ = ["plugins"]


@click.command(
    epilog="""\b
Examples:
  tierwise plugins
  tierwise plugins gang binpack
  tierwise plugins -o json | jq -r '.plugins[] | select(.package != "tierwise").name'
"""
)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@options.output
@click.pass_context
def plugins(ctx: click.Context, names: tuple[str, ...], output_format: str) -> None:
    """List the installed plugins with their packages, the extension points they take part in, and their arguments.

    With names, shows those plugins in full. Plugins come with tierwise, and with any package that has an entry point
    in the group tierwise.plugins. Each is imported and checked as a configuration that names it would be; the exit
    status is 1 where one cannot be used.
    """
    from tierwise.explain.text.plugins import installed, plugin_lines, plugin_wire

    found = installed(names)
    if output_format == "json":
        from tierwise.cli.screen import print_json

        print_json(plugin_wire(found))
    else:
        from tierwise.cli.screen import print_page

        print_page(lambda page: plugin_lines(page, found, whole=bool(names)))
    if any(plugin.problem for plugin in found):
        ctx.exit(1)
