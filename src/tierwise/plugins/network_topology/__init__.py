"""The plugin network-topology-aware."""
