"""The plugin propose: recommends a domain and a division by optimisation."""
