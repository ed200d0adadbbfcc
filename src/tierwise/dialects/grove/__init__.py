"""Reads Grove's PodGangs into model types."""
