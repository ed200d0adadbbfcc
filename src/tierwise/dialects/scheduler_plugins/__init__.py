"""The PodGroup of scheduling.x-k8s.io in the words of the model."""
