"""HyperNodes and their status: made from labels and other sources."""
