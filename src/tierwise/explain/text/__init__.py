"""Text for terminals: one module for each verb, and the parts that they share."""
