"""AppGroup and NetworkTopology of sig-scheduling in the words of the model."""
