"""A real cluster behind the port: a client of the API server, informers, and effects as requests.

`KubeCluster` (in `cluster`) is all that others use. It keeps its caches on an event loop in a thread of its own, so
that scheduler and controllers see plain `Objects` and know neither asyncio nor pods that are assumed to be bound.
"""
