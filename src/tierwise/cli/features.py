"""`tierwise features`: the feature gates, how far each feature is, and whether it is on."""

from __future__ import annotations

from tierwise.cli import options
from tierwise.cli.options import Format, verb

__all__ = ["features"]


@verb("""
  tierwise features
  tierwise features --config profile.yaml -o json | jq -r '.features[] | select(.enabled).name'
""")
def features(*, config_file: str | None = options.config, output: Format) -> None:
    """List the feature gates: the stage of each feature, since when, and whether a configuration has it on."""
    from tierwise.cli.inputs import profile_of
    from tierwise.explain.text.features import feature_lines, feature_wire

    profile = profile_of(config_file)
    output.show(lambda: feature_wire(profile), lambda page: feature_lines(page, profile))
