"""What a row of the benchmark says: a measured number beside the goals it is held to."""

from __future__ import annotations

import msgspec

__all__ = ["Goal", "Row", "at_least", "at_most"]


class Goal(msgspec.Struct, frozen=True):
    """A gate is the least that is accepted; the stretch is what is aimed at, None where nothing more is."""

    gate: float
    stretch: float | None
    most: bool  # whether smaller is better

    def met(self, measured: float, bound: float) -> bool:
        return measured <= bound if self.most else measured >= bound


def at_most(gate: float, stretch: float | None = None) -> Goal:
    """Smaller is better."""
    return Goal(gate, stretch, most=True)


def at_least(gate: float, stretch: float | None = None) -> Goal:
    """Larger is better."""
    return Goal(gate, stretch, most=False)


class Row(msgspec.Struct, frozen=True):
    """One line of the table."""

    id: str
    what: str
    measured: float
    goal: Goal

    @property
    def gate_met(self) -> bool:
        return self.goal.met(self.measured, self.goal.gate)

    @property
    def stretch_met(self) -> bool | None:
        return None if self.goal.stretch is None else self.goal.met(self.measured, self.goal.stretch)

    def record(self) -> dict[str, str | float | bool | None]:
        """The row as JSON has it."""
        return {
            "id": self.id,
            "what": self.what,
            "measured": float(f"{self.measured:.4g}"),
            "gate": self.goal.gate,
            "stretch": self.goal.stretch,
            "gate_met": self.gate_met,
            "stretch_met": self.stretch_met,
        }
