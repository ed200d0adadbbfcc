"""Profiles: which actions and plugins a scheduler runs, read from the formats that its users already have."""
