"""The immutable types of one cycle: resources, nodes, topology, shapes, jobs, queues, reasons.

Built by `tierwise.snapshot` and `tierwise.dialects`, read by all packages above, and never changed.
"""
