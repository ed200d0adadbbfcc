"""The embedded cluster and what feeds it: manifests in, an object store with kubelets, and rounds of the loop."""
