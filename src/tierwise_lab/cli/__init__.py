"""Verbs of the laboratory, one file each."""
