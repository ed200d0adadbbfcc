"""Which verbs the laboratory adds to `tierwise`: the object that its entry point names."""

from __future__ import annotations

from typing import Final

__all__ = ["VERBS"]

VERBS: Final = {
    "sweep": ("tierwise_lab.cli.sweep:sweep", "Replay a grid of settings on all cores or a cluster, and compare."),
    "simulate": ("tierwise_lab.cli.simulate:simulate", "Replay a trace of jobs under several profiles, side by side."),
    "bench": ("tierwise_lab.cli.bench:bench", "Measure how fast this machine schedules."),
}
"""By name where the command is, as module and attribute, and what it does in a line."""
