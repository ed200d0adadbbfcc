"""Controllers that create HyperNodes from labels and other sources, and that write topology status."""
