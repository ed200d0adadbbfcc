"""Koordinator's kinds in the words of the model."""
