"""Finding a place for a gang: demand, search, fit and commit. Called by allocate, backfill and the evicting actions."""
