"""Making room: victims, bundles, feasibility, and the evicting actions that a profile names."""
