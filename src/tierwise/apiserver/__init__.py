"""The embedded cluster with the API of Kubernetes, as far as a stock kubectl needs it, for `tierwise up`.

Objects live in a `ServedCluster`, which scheduler, controllers and simulated kubelets work on as well; `ObjectApi` has
the verbs, without HTTP; `app` puts them on paths. What a user writes is kept as it was written: nothing is dropped
because tierwise does not know it.
"""
