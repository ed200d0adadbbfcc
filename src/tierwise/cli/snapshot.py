"""`tierwise snapshot`: the state of a real cluster in a file, to be looked at elsewhere."""

from __future__ import annotations

import click
import msgspec

from tierwise.cli.live_state import LiveCluster, live_state
from tierwise.cli.options import option, verb

__all__ = ["snapshot"]


@verb("""
  tierwise snapshot -o cluster.jsonl --scheduler-name tierwise
  tierwise schedule -f cluster.jsonl
  tierwise snapshot -o - --context prod | tierwise explain -f - --job default/train
""")
def snapshot(
    *,
    cluster: LiveCluster,
    file: str = option(
        "-o --output FILE",
        "Where to write JSON lines, or - for standard output.",
        kind=click.Path(dir_okay=False, allow_dash=True),
    ),
    names: tuple[str, ...] = option(
        "--scheduler-name NAME",
        "Leave out pods that wait for other schedulers. May be repeated.  [default: keep all]",
    ),
) -> None:
    """Save the state of a cluster: all objects that scheduling looks at, and the time.

    Verbs that read the file see what the scheduler saw and run at that time, so they decide the same, bit for bit. They
    place pods of every scheduler that they know: name those that tierwise serves where others serve some of them.
    Secrets are not read. What pods and ConfigMaps say of themselves, such as environment variables, is in the file.
    """
    from tierwise.manifests.saved import served

    state = live_state(cluster)
    lines = [msgspec.json.encode(raw) + b"\n" for raw in (served(state, names) if names else state)]
    with click.open_file(file, "wb", atomic=file != "-") as out:
        out.writelines(lines)
    if file != "-":
        click.echo(f"{len(lines) - 1} objects in {file}", err=True)
