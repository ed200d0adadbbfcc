"""Reads Kubernetes' own objects (pods, pod groups, volumes, devices) into model types."""
