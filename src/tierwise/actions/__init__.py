"""The stages of a cycle: enqueue, allocate, backfill, and the search that they share."""
