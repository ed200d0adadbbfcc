"""Kubernetes' own pods in the words of the model."""
