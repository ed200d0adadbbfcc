"""The scheduler as functions: one cycle over a snapshot, and what its report asks of the cluster."""

from tierwise.scheduler.cycle import ACTIONS, check_profile, cycle, open_cycle, probe_for
from tierwise.scheduler.effects import effects

__all__ = ["ACTIONS", "check_profile", "cycle", "effects", "open_cycle", "probe_for"]
