"""Programs that run on nodes: what the network between them takes, and what their interfaces carry.

Each has a pure part that says what to write, as effects, and a small part that looks at the machine. They know no
cluster: whoever runs them hands the effects to one, or prints them.
"""
