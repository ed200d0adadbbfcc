"""`tierwise crds`: the custom resource definitions of every kind that tierwise reads."""

from __future__ import annotations

import click

from tierwise.cli.options import option, text_of, verb

__all__ = ["crds"]

_FAMILIES = ("volcano", "koordinator", "network-aware", "scheduler-plugins", "tierwise")


@verb("""
  tierwise crds | kubectl apply --server-side -f -
  tierwise crds --family volcano --family koordinator
  kubectl get crds -o name | tierwise crds --missing-from - > missing.yaml
""")
def crds(
    *,
    families: tuple[str, ...] = option(
        "--family", "Only the kinds of this project. May be repeated.", choices=_FAMILIES
    ),
    present: str | None = option(
        "--missing-from FILE",
        "Leave out those named in FILE (or - for standard input), as `kubectl get crds -o name` prints them.",
    ),
    folder: str | None = option("--to FOLDER", "Write files there instead.", kind=click.Path(file_okay=False)),
) -> None:
    """Print the definitions of the kinds that Kubernetes lacks.

    Projects that own a kind come first: where Volcano, Koordinator or diktyo are installed, theirs stay as they are.
    """
    from tierwise.api.definitions import DEFINITIONS

    names_present = _names(present) if present is not None else set()
    missing = [d for d in DEFINITIONS if (not families or d.family in families) and d.name not in names_present]
    if not missing:
        click.echo("nothing is missing", err=True)
    if folder is None:
        click.echo("---\n".join(definition.text for definition in missing), nl=False)
        return
    from pathlib import Path

    for definition in missing:
        path = Path(folder) / definition.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(definition.text, encoding="utf-8")


def _names(file: str) -> set[str]:
    """The names in a file, one to a line, with or without their type before them."""
    return {line.strip().rpartition("/")[2] for line in text_of(file).splitlines()}
