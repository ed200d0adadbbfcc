"""Plugins that share a cluster between queues: capacity, proportion, drf, overcommit."""
