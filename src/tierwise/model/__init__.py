"""The immutable nouns of one cycle: resources, nodes, topology, shapes, jobs, queues, reasons.

Built once per cycle by `tierwise.dialects`, read by everything above, changed by nobody.
"""
