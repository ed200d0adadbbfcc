"""Reads Koordinator's objects into model types."""
