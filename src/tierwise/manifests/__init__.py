"""Objects in files: manifests as people write them, and saved states of clusters."""
