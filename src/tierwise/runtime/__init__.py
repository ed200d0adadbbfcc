"""What runs in a cluster: servers, metrics and logs around the same functions that the commands call."""
