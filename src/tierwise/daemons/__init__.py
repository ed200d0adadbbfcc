"""Programs that run on nodes: they measure the network between zones, and advertise the speed of interfaces.

Each has a pure part that returns effects, and a small part that looks at the machine. They do not talk to a cluster:
the caller applies the effects or prints them.
"""
