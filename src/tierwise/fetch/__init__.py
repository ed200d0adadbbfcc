"""Topology sources from outside: files, cluster manifests and a fabric manager, handed to the readers of `discovery`.

Called by the command line, and by `runtime.fetching` for a cluster. The only part of discovery that does
I/O; what goes wrong is an InputError or a `FetchError` with one line for people.
"""
