"""Reads Volcano's objects into model types."""
