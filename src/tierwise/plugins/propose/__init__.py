"""The plugin propose: recommends a domain, and a division of the gang below it, by optimisation."""
