"""`tierwise validate`: admission's checks over manifests; exit status 1 where something is invalid."""

from __future__ import annotations

import click

from tierwise.cli import options

__all__ = ["validate"]


@click.command(
    epilog="""\b
Examples:
  tierwise validate -f job.yaml
  tierwise validate -f manifests/ -o json
  tierwise validate -f cluster.yaml && kubectl apply -f cluster.yaml
"""
)
@options.filenames
@options.config
@options.everything
@options.output
@click.pass_context
def validate(
    ctx: click.Context, filenames: tuple[str, ...], config_file: str | None, everything: bool, output_format: str
) -> None:
    """Check manifests as admission would, and list what is wrong with them.

    Errors make the exit status 1; warnings do not. What cannot be read at all, a scheduler configuration with an
    unknown plugin included, is bad input: exit status 2.
    """
    from tierwise.admission import validate as judge
    from tierwise.cli.inputs import load, profile_of

    profile_of(config_file)
    objects = load(filenames)
    verdict = judge(objects)
    if output_format == "json":
        from tierwise.cli.screen import print_json
        from tierwise.explain.verdict_wire import verdict_wire

        print_json(verdict_wire(verdict))
    else:
        from tierwise.cli.screen import print_page
        from tierwise.explain.verdicts import verdict_lines

        print_page(lambda page: verdict_lines(page, verdict, len(objects)), everything=everything)
    if not verdict.valid:
        ctx.exit(1)
