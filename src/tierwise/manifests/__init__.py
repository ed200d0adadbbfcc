"""What lies in files: manifests as people write them, saved states of clusters, configurations of schedulers."""
