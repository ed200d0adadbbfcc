"""`tierwise config`: configurations in tierwise's own form, whatever format they are written in."""

from __future__ import annotations

from collections.abc import Mapping

import click

from tierwise.cli.options import Format, argument, verb

__all__ = ["config"]


@click.group()
def config() -> None:
    """Convert and check configurations of the scheduler, and show the default one."""


@verb("""
  tierwise config convert volcano-scheduler.conf > profile.yaml
  kubectl get configmap koord-scheduler-config -o yaml | tierwise config convert -
""")
def convert(*, file: str = argument("FILE")) -> None:
    """Print a configuration as a SchedulerProfile, which configures the same scheduler.

    Volcano's format, a KubeSchedulerConfiguration and a SchedulerProfile are read, plain or inside a ConfigMap. What
    has no effect is named on standard error and left out. Equal profiles give equal bytes.
    """
    from tierwise.cli.inputs import profile_of
    from tierwise.config.scheduler_profile import written

    _echo(written(profile_of(file)))


@verb("""
  tierwise config validate profile.yaml
  tierwise config validate volcano-scheduler.conf -o json | jq '.errors'
""")
def validate(*, files: tuple[str, ...] = argument("FILE..."), output: Format) -> None:
    """Check configurations, and say what is wrong with them and what has no effect.

    Errors make the exit status 1; warnings do not. A file that cannot be read is bad input, with exit status 2.
    """
    from tierwise.admission import FieldFinding, ValidationResult
    from tierwise.api.errors import InputError
    from tierwise.explain.text.validate import verdict_lines, verdict_wire
    from tierwise.manifests.configuration import configuration, profile_in

    if not files:
        raise click.UsageError("Missing argument 'FILE...'.")
    errors: list[FieldFinding] = []
    warnings: list[FieldFinding] = []
    for file in files:
        raw, where = configuration(file)
        try:
            warnings += [FieldFinding(where, "", note) for note in profile_in(raw, where).notes]
        except InputError as error:
            errors.append(FieldFinding(where, error.field or "", error.message))
    verdict = ValidationResult(tuple(errors), tuple(warnings))
    output.show(lambda: verdict_wire(verdict), lambda page: verdict_lines(page, verdict, len(files)))
    if errors:
        click.get_current_context().exit(1)


@verb(
    """
  tierwise config show-defaults > profile.yaml
""",
    "show-defaults",
)
def show_defaults() -> None:
    """Print the profile that is used where there is no configuration, every field of it, as a SchedulerProfile."""
    from tierwise.config.profile import DEFAULT
    from tierwise.config.scheduler_profile import written

    _echo(written(DEFAULT, every_field=True))


@verb("""
  tierwise config schema > scheduler-profile.schema.json
""")
def schema() -> None:
    """Print the JSON schema of a SchedulerProfile, for editors and for checks before a file is applied."""
    from tierwise.cli.screen import print_json
    from tierwise.config.scheduler_profile import schema as own

    print_json(own())


def _echo(profile: Mapping[str, object]) -> None:
    import yaml

    click.echo(yaml.safe_dump(profile, sort_keys=False), nl=False)


for command in (convert, validate, show_defaults, schema):
    config.add_command(command)
