"""Eviction: preemptors, victims, bundles, feasibility checks, and the evicting actions that a profile names."""
