"""`tierwise windows`: Slurm's reservations as windows of nodes."""

from __future__ import annotations

import click

from tierwise.cli.options import option, text_of, verb

__all__ = ["windows"]


@verb("""
  scontrol show reservation | tierwise windows --from-slurm - --time-zone Europe/Berlin > windows.yaml
  tierwise windows --from-slurm reservations.txt | kubectl apply --server-side -f -
""")
def windows(
    *,
    slurm: str = option("--from-slurm FILE", "What `scontrol show reservation` prints (or -).", required=True),
    zone: str = option("--time-zone NAME", "Time zone of Slurm's times.", default="UTC"),
) -> None:
    """Print Slurm's reservations of nodes as Windows.

    Daily and weekly ones recur. Users, accounts and groups have no queue of the same name: what of a reservation is not
    read is told, line by line.
    """
    import yaml

    from tierwise.api.codec import decode
    from tierwise.api.window import check
    from tierwise.discovery.slurm_reservations import windows_of

    text = text_of(slurm)
    for window, left in windows_of(text, file=slurm, zone=zone):
        check(decode(window))
        click.echo(f"---\n{yaml.safe_dump(window, sort_keys=False)}", nl=False)
        for line in left:
            click.echo(f"tierwise: warning: {window['metadata']['name']}: {line}", err=True)  # type: ignore[index]
