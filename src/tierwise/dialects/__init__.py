"""Translates API objects into model types: one folder for each family of objects."""
