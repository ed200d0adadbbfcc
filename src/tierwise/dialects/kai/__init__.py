"""Reads KAI's objects into model types."""
