"""Where a gang goes: demand, search, fit and commit. Called by allocate, backfill and the evicting actions."""
