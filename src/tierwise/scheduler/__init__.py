"""The scheduler as functions: one cycle over a snapshot, and (`effects`) what its report asks of the cluster."""

from tierwise.scheduler.cycle import check_profile, cycle, open_cycle

__all__ = ["check_profile", "cycle", "open_cycle"]
