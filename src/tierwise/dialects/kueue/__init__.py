"""Reads Kueue's annotations and objects into model types."""
