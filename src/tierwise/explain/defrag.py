"""A plan of moves that opens room for a gang: what is asked for, each move with its cost, and what is gained.

`sim.defrag` makes plans; the command line shows them. Pure: nothing is run here.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tierwise.api.codec import Raw
from tierwise.api.core import format_time
from tierwise.api.defrag_record import DefragRecord, MovePhase
from tierwise.api.plurals import count
from tierwise.explain.ranges import compact

__all__ = ["DefragPlan", "Move", "Room", "execution_wire", "plan_wire", "progress"]


class Room(msgspec.Struct, frozen=True):
    """Room for so many pods that each ask for this, inside one domain of a tier."""

    requests: Mapping[str, str]  # resource and quantity, as they were written
    pods: int
    tier: int
    tier_name: str = ""

    @property
    def text(self) -> str:
        requests_text = " and ".join(f"{quantity} {resource}" for resource, quantity in self.requests.items())
        where = f"one {self.tier_name}" if self.tier_name else f"one domain of tier {self.tier}"
        where = "the whole cluster" if self.tier_name == "cluster" else where
        return f"{count(self.pods, 'pod')} of {requests_text}, in {where}"


class Move(msgspec.Struct, frozen=True):
    """Pods of one job that are evicted together and start again elsewhere, where their place is known before."""

    job: str  # namespace/name
    name: str  # as people call it
    pods: Mapping[str, tuple[str, str]]  # by path, from which node to which
    minimum: int  # pods without which the job does not run; 0 for a pod by itself
    left: int  # pods of it that run on while these move
    hours: float  # of the plan's resource, that are lost
    before: str  # the innermost domain around the job's pods, for people
    after: str

    @property
    def restarts(self) -> bool:
        """Whether too few pods are left, so that the job restarts as a whole."""
        return self.left < self.minimum


class DefragPlan(msgspec.Struct, frozen=True):
    """Moves in their order, and what they cost and open; without moves, why there are none."""

    room: Room
    slots_before: int  # such gangs that fit now, side by side, each inside one domain
    slots_after: int
    resource: str  # in which hours are counted
    moves: tuple[Move, ...] = ()
    domain: str = ""  # where the room comes to be
    title: str = ""  # the same for people
    nodes: Mapping[str, int] = {}  # and how many of the pods each node there takes
    exact: bool = False  # it is proved that no plan moves fewer pods, or that there is none
    why: str = ""  # there is no plan: why not
    notes: tuple[str, ...] = ()  # running pods that no plan may move, and why

    @property
    def fits(self) -> bool:
        """Nothing need be moved."""
        return self.slots_before > 0

    @property
    def possible(self) -> bool:
        return self.fits or bool(self.moves)

    @property
    def pods(self) -> int:
        return sum(len(move.pods) for move in self.moves)

    @property
    def hours(self) -> float:
        return sum(move.hours for move in self.moves)


def plan_wire(plan: DefragPlan) -> Raw:
    """The plan for programs."""
    room = plan.room
    return {
        "for": {"requests": dict(room.requests), "pods": room.pods, "tier": room.tier, "tierName": room.tier_name},
        "fitsNow": plan.fits,
        "possible": plan.possible,
        "exact": plan.exact,
        "reason": plan.why,
        "notes": list(plan.notes),
        "slots": {"before": plan.slots_before, "after": plan.slots_after},
        "hyperNode": plan.domain,
        "nodes": dict(plan.nodes),
        "podsMoved": plan.pods,
        "cost": {"resource": plan.resource, "hours": round(plan.hours, 3)},
        "moves": [
            {
                "podGroup": move.job,
                "pods": {pod: {"from": old, "to": new} for pod, (old, new) in move.pods.items()},
                "podsLeft": move.left,
                "minMember": move.minimum,
                "restarts": move.restarts,
                "hours": round(move.hours, 3),
            }
            for move in plan.moves
        ],
    }


def progress(before: DefragRecord | None, record: DefragRecord) -> list[str]:
    """The steps between two records of an execution, a line each."""
    lines: list[str] = []
    finished_before = len(before.finished) if before is not None else 0
    for move in record.finished[finished_before:]:
        note = f"; {move.note}" if move.note else ""
        lines.append(f"moved {count(move.pods, 'pod')} of {move.name}{note}")
    if before is not None and (before.phase, before.revision) == (record.phase, record.revision):
        return lines
    if record.over:
        return [*lines, f"{'done' if record.phase is MovePhase.DONE else 'stopped'}: {record.message}"]
    present = record.moves[0]
    targets = compact(dict.fromkeys(pod.target for pod in present.pods.values()))
    match record.phase:
        case MovePhase.RESERVING:
            lines.append(f"holding {count(len(present.pods), 'place')} on {targets} for {present.name}")
        case MovePhase.MOVING:
            notice_text = f" after {present.notice:.0f} seconds of notice" if present.notice else ""
            lines.append(f"evicting {count(len(present.pods), 'pod')} of {present.name}{notice_text}")
        case _:
            lines.append(record.message)
    return lines


def execution_wire(record: DefragRecord) -> Raw:
    """An execution for programs."""
    return {
        "phase": str(record.phase),
        "message": record.message,
        "for": record.room,
        "moves": [
            {"name": move.name, "pods": move.pods, "at": format_time(move.at), "hours": round(move.hours, 3)}
            for move in record.finished
        ],
        "movesLeft": [move.job for move in record.moves],
        "plans": record.plans,
    }
