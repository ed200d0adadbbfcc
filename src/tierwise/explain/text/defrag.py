"""The page of `defrag`: the room that is asked for, what fits before and after, and the moves in their order."""

from __future__ import annotations

from tierwise.api.plurals import verb
from tierwise.explain.defrag import DefragPlan, Move
from tierwise.explain.naming import name_of_pod
from tierwise.explain.page import Page, Text, count, heading, wrapped
from tierwise.explain.ranges import compact

__all__ = ["defrag_lines"]


def defrag_lines(page: Page, plan: DefragPlan) -> list[Text]:
    """Everything that `defrag` tells people."""
    lines = [*wrapped(Text(plan.room.text, style="bold"), page.width, first="room for  "), Text("")]

    def say(title: str, text: str) -> None:
        lines.extend(wrapped(Text(text), page.width, first=f"{title:<10}"))

    say("now", _slots(plan.slots_before))
    if plan.moves:
        nodes = f"{count(len(plan.nodes), 'node')}: {compact(plan.nodes)}"
        which = "one of them in" if plan.slots_after > 1 else "in"
        say("after", f"{_slots(plan.slots_after)}, {which} {plan.title}, on {nodes}")
        moved = f"{count(plan.pods, 'pod')} of {count(len(plan.moves), 'job')}"
        say("cost", f"{moved} {verb(plan.pods, 'restarts', 'restart')} elsewhere; {_hours(plan.hours, plan)}")
        say("proof", "no plan moves fewer pods" if plan.exact else "none; perhaps fewer pods will do")
    elif plan.fits:
        say("plan", "no pod has to move")
    else:
        say("plan", f"none: {plan.why}{'' if plan.exact else '; not all choices were tried'}")
    for note in plan.notes if not plan.fits else ():
        say("note", note)
    if plan.moves:
        lines += heading("Moves, each once the one before it is done")
    for number, move in enumerate(plan.moves, 1):
        move_text = Text.assemble((move.name, "bold cyan"), f"  {_move(page, move)}; {_hours(move.hours, plan)}")
        lines += wrapped(move_text, page.width, first=f"{number:>3}  ", rest="       ")
    return lines


def _slots(number: int) -> str:
    if number:
        return f"{count(number, 'such gang')} {verb(number, 'fits', 'fit')}"
    return "no such gang fits"


def _hours(hours: float, plan: DefragPlan) -> str:
    return f"{hours:,.1f} {plan.resource} hours of work are lost"


def _move(page: Page, move: Move) -> str:
    arrow = page.glyphs.arrow
    old, new = (compact(dict.fromkeys(nodes[side] for nodes in move.pods.values())) for side in (0, 1))
    pods = compact(map(name_of_pod, move.pods))
    text = f"{count(len(move.pods), 'pod')} ({pods}) from {old} to {new}"
    if move.before != move.after:
        text += f" ({move.before} {arrow} {move.after})"
    if move.restarts and move.left:
        text += f"; the other {count(move.left, 'pod')} of it {verb(move.left, 'restarts', 'restart')}, too"
    return text
