"""Reads the PodGroup of scheduling.x-k8s.io into model types."""
