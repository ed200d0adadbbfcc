"""Filling nodes with pods that share GPUs."""
