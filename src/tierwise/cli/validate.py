"""`tierwise validate`: admission's checks over manifests; exit status 1 where something is invalid."""

from __future__ import annotations

import click

from tierwise.cli import options
from tierwise.cli.options import Output, option, verb

__all__ = ["validate"]


@verb("""
  tierwise validate -f job.yaml
  tierwise validate -f manifests/ -o json
  tierwise validate -f cluster.yaml && kubectl apply -f cluster.yaml
  tierwise validate --config scheduler.conf
""")
def validate(
    *,
    filenames: tuple[str, ...] = options.optional_filenames,
    config_file: str | None = options.config,
    strict: bool = option(
        "--strict",
        "Fields that a kind does not have, and images that are left out, are errors.",
    ),
    output: Output,
) -> None:
    """Check manifests as admission would, and list what is wrong with them.

    Errors make the exit status 1; warnings do not. What cannot be read at all, a scheduler configuration with an
    unknown plugin included, is bad input: it is named on standard error, everything else is checked, and the exit
    status is 2. A configuration can be checked without manifests.
    """
    ctx = click.get_current_context()
    if not filenames and config_file is None:
        raise click.UsageError("Missing option '-f' / '--filename', or '--config'.")
    from msgspec.structs import replace

    from tierwise.admission import ValidationResult, incomplete, unheard, unserved
    from tierwise.admission import validate as judge
    from tierwise.api.errors import InputError
    from tierwise.cli.inputs import load, profile_of
    from tierwise.cli.main import report_error
    from tierwise.explain.text.validate import verdict_lines, verdict_wire
    from tierwise.port import Objects
    from tierwise.snapshot.builder import SCHEDULER_NAMES

    profile = profile_of(config_file)
    faults: list[InputError] = []
    objects = load(filenames, faults) if filenames else Objects()
    for fault in faults:
        report_error(str(fault))
    if faults and not len(objects):
        ctx.exit(2)
    hint = "" if strict else "; an error with --strict"
    verdict = judge(objects)
    named = {(finding.object, finding.path) for finding in verdict.errors}
    unread = (finding for finding in unheard(objects) if (finding.object, finding.path) not in named)
    fields = tuple(replace(finding, message=finding.message + hint) for finding in unread)
    not_ours = unserved(objects, SCHEDULER_NAMES.union(profile.schedulers))
    refused = (*fields, *incomplete(objects)) if strict else ()
    doubtful = () if strict else fields
    verdict = ValidationResult((*verdict.errors, *refused), (*verdict.warnings, *doubtful, *not_ours))
    output.show(
        lambda: verdict_wire(verdict, unread=len(faults)),
        lambda page: verdict_lines(page, verdict, len(objects), unread=len(faults)),
    )
    if faults or not verdict.valid:
        ctx.exit(2 if faults else 1)
