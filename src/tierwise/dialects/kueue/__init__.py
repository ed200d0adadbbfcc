"""Kueue's annotations and objects in the words of the model."""
