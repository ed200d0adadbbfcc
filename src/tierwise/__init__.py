"""tierwise: a gang scheduler for Kubernetes that knows the network topology.

The package itself offers nothing but its version: import the part that is meant, such as `tierwise.scheduler`.
It must stay free of imports, so that the command line starts fast and the layers stay apart.
"""

__all__ = ["__version__"]

__version__ = "0.1.0"
