"""`tierwise nodes`: how many nodes of which domain are idle, in use, cordoned or not ready."""

from __future__ import annotations

from tierwise.cli import options
from tierwise.cli.inputs import Source, moment, tell_unread
from tierwise.cli.options import ListOutput, option, verb

__all__ = ["nodes"]


@verb("""
  kubectl tierwise nodes
  tierwise nodes -f cluster.yaml --by rack
  tierwise nodes -f cluster.yaml --by node.kubernetes.io/instance-type
  tierwise nodes -f cluster.yaml -o jsonpath='{range .states[*]}{.group} {.state} {.nodes}{"\\\\n"}{end}'
""")
def nodes(
    *,
    source: Source,
    by: str = option(
        "--by TIER|LABEL", "Domains of this tier, or values of this label.  [default: the highest tier]", default=""
    ),
    now: float | None = options.now,
    output: ListOutput,
) -> None:
    """Show the states of nodes by domain or label, as sinfo shows those of partitions.

    A node is idle, mixed or allocated by the scarce resource, or cordoned, or not ready. Schedules nothing.
    """
    from tierwise.explain.text.nodes import node_states, nodes_lines, nodes_wire
    from tierwise.snapshot.builder import build

    objects = source.objects(tell_unread)
    states = node_states(build(objects, moment(objects, now)), objects, by)
    output.show(
        lambda: nodes_wire(*states),
        lambda page: nodes_lines(page, *states),
        lambda: [f"node/{name}" for state in states[2] for name in state.nodes],
    )
