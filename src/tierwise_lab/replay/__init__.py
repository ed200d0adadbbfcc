"""Replay of traces: the scheduler's own cycle on a virtual clock, with what it did counted by stated definitions.

Nothing here reads a clock or draws unseeded numbers: the same inputs give the same bytes. `tierwise simulate` is the
verb on top; docs/reference/simulation-metrics.md defines every number.
"""
