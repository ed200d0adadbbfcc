"""The embedded cluster and what feeds it: manifests, clock, kubelet, workload traces."""
