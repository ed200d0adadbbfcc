"""The embedded cluster: a store of objects, and who acts on them on one clock."""
