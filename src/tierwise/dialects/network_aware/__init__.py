"""Reads AppGroup and NetworkTopology of sig-scheduling into model types."""
