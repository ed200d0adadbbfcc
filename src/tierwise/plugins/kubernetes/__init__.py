"""kube-scheduler's rules between pods and nodes: the plugins predicates and nodeorder."""
