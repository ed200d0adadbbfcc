"""`tierwise drainable`: what it would cost to drain each node, rack or spine, and which can go together."""

from __future__ import annotations

from tierwise.cli.inputs import Inputs
from tierwise.cli.options import Output, argument, option, verb
from tierwise.cli.progress import show_progress

__all__ = ["drainable"]


@verb(
    """
  kubectl tierwise drainable
  tierwise drainable -f state.json --tier spine
  tierwise drainable -f state.json --tier node rack-1-node-3 rack-1-node-4
  tierwise drainable -f state.json --tier rack --together 2 -o json | jq .together
""",
    decides=True,
)
def drainable(
    *,
    names: tuple[str, ...] = argument("[NAME]..."),
    inputs: Inputs,
    tier: str = option(
        "--tier TIER", "Domains of this tier, by number or name, or `node`.  [default: the lowest]", default=""
    ),
    together: int = option(
        "--together K", "Also find K domains that can be drained together.", default=0, least=0, most=64
    ),
    output: Output,
) -> None:
    """Show what draining each domain would break, move and cost, the cheapest first.

    Counts what runs there: pods that restart, gangs that fall below their minimum, accelerator-hours since the last
    checkpoints; and schedules the drained cluster in memory to see which jobs would find no place again. Nothing
    outside is touched.
    """
    from tierwise.explain.disruption import drainable_wire
    from tierwise.explain.text.drainable import drainable_lines
    from tierwise.sim.what_if import drainable as drains
    from tierwise.sim.what_if.runs import prepared

    state = inputs.read()
    with show_progress("trying drains"):
        result = drains.drainable(prepared(*state[:3]), tier, names, together=together)
    output.show(lambda: drainable_wire(result), lambda page: drainable_lines(page, result))
