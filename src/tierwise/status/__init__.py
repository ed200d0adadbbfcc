"""What the API server is told after a cycle: status, conditions and events."""
