"""The plugins NetworkOverhead and TopologicalSort of sig-scheduling's network-aware framework."""
