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
  tierwise validate --config scheduler.conf
"""
)
@options.optional_filenames
@options.config
@click.option("--strict", is_flag=True, help="Fields that a kind does not have are errors, and not only warnings.")
@options.everything
@options.output
@click.pass_context
def validate(
    ctx: click.Context,
    filenames: tuple[str, ...],
    config_file: str | None,
    strict: bool,
    everything: bool,
    output_format: str,
) -> None:
    """Check manifests as admission would, and list what is wrong with them.

    Errors make the exit status 1; warnings do not. What cannot be read at all, a scheduler configuration with an
    unknown plugin included, is bad input: it is named on standard error, everything else is checked, and the exit
    status is 2. A configuration can be checked without manifests.
    """
    if not filenames and config_file is None:
        raise click.UsageError("Missing option '-f' / '--filename', or '--config'.", ctx)
    from tierwise.admission import ValidationResult, unheard
    from tierwise.admission import validate as judge
    from tierwise.api.errors import InputError
    from tierwise.cli.inputs import load, profile_of
    from tierwise.cli.main import report_error
    from tierwise.port import Objects

    profile_of(config_file)
    faults: list[InputError] = []
    objects = load(filenames, faults) if filenames else Objects()
    for fault in faults:
        report_error(str(fault))
    if faults and not len(objects):
        ctx.exit(2)
    verdict, fields = judge(objects), tuple(unheard(objects))
    verdict = ValidationResult(
        (*verdict.errors, *(fields if strict else ())), (*verdict.warnings, *(() if strict else fields))
    )
    if output_format == "json":
        from tierwise.cli.screen import print_json
        from tierwise.explain.findings_wire import verdict_wire

        print_json(verdict_wire(verdict, unread=len(faults)))
    else:
        from tierwise.cli.screen import print_page
        from tierwise.explain.text.validate import verdict_lines

        print_page(lambda page: verdict_lines(page, verdict, len(objects), unread=len(faults)), everything=everything)
    if faults or not verdict.valid:
        ctx.exit(2 if faults else 1)
