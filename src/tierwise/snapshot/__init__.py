"""Reads a cluster's objects into the snapshot of a cycle, from scratch or incrementally."""
