"""Grids of replays: which cells there are, who runs them, what is kept of them, and what may be concluded."""
