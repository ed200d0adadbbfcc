"""The stages of a cycle: enqueue, allocate, backfill, eviction by task and by gang, and the search that they share."""
