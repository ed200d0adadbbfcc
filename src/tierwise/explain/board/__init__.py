"""The board: everything that the pages show of a cluster, as JSON made from the same run that the command line shows.

`web` serves it, and nothing here knows of servers. Pure functions: the same run gives the same bytes. The board is a
summary, whatever the size of the cluster; the nodes of a domain and the details of a job are requested one at a time.
"""

from __future__ import annotations

from tierwise.explain.board.board import Board, cycle_entry
from tierwise.explain.board.jobs import JobQuery, Line, selected
from tierwise.explain.board.tables import TableQuery

__all__ = ["Board", "JobQuery", "Line", "TableQuery", "cycle_entry", "selected"]
