"""The board: all that a page shows of a cluster, as JSON made from the same run that the command line tells of.

`web` serves it, and nothing here knows of servers. Pure functions: the same run gives the same bytes. The board sums
up, whatever the size of the cluster; the nodes of a domain and the story of a job are asked for one at a time.
"""

from __future__ import annotations

from tierwise.explain.board.board import Board, cycle_entry

__all__ = ["Board", "cycle_entry"]
