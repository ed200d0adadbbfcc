"""The actions of a cycle (enqueue, allocate, backfill, the evicting ones), and the placement search that they share."""
