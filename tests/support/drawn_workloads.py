"""Pods and workloads with one thing changed, good and broken: the same for our checks and for a real API server."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

__all__ = ["KINDS", "drawn"]

Json = dict[str, Any]
_LABELS = {"app": "web"}
_CONTAINER: Json = {"name": "main", "image": "nginx:1"}
_MOUNT: Json = {"name": "v", "mountPath": "/v"}
_SPREAD: Json = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}


def _of_nodes(expression: Json) -> Json:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def _apart(term: Json) -> Json:
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def _spread(**change: object) -> Json:
    return {"topologySpreadConstraints": [{**_SPREAD, **change}]}


# What is put into the spec of a pod, by what it is about. A container is merged into the only one there is.

_GOOD_SPECS: dict[str, Json] = {
    "nothing": {},
    "two containers": {"containers": [_CONTAINER, {"name": "side-car", "image": "b"}]},
    "an init container": {"initContainers": [{"name": "first", "image": "b"}]},
    "a grace period": {"terminationGracePeriodSeconds": 0},
    "a selector of nodes": {"nodeSelector": {"a.example.com/b_c": "X.y-z_0", "empty": ""}},
    "a toleration of all": {"tolerations": [{"operator": "Exists"}]},
    "a toleration for a time": {
        "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]
    },
    "a toleration of a value": {"tolerations": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
    "dns": {"dnsPolicy": "Default"},
    "a volume": {"volumes": [{"name": "v", "emptyDir": {}}], "container": {"volumeMounts": [_MOUNT]}},
    "a bare volume": {"volumes": [{"name": "v"}]},
    "two mounts": {
        "volumes": [{"name": "v", "emptyDir": {}}],
        "container": {"volumeMounts": [_MOUNT, {"name": "v", "mountPath": "/w"}]},
    },
    "requests": {"container": {"resources": {"requests": {"cpu": "500m", "memory": "1.5Gi"}}}},
    "requests and limits": {"container": {"resources": {"requests": {"cpu": 1}, "limits": {"cpu": 1.5}}}},
    "limits alone": {"container": {"resources": {"limits": {"nvidia.com/gpu": 2, "memory": "1Gi"}}}},
    "a device": {"container": {"resources": {"requests": {"a.b/c": "2"}, "limits": {"a.b/c": 2}}}},
    "whole devices as a decimal": {"container": {"resources": {"limits": {"nvidia.com/gpu": "2000m"}}}},
    "huge pages": {"container": {"resources": {"limits": {"hugepages-2Mi": "4Mi", "memory": "1Gi"}}}},
    "scratch space": {"container": {"resources": {"requests": {"ephemeral-storage": "1Gi"}}}},
    "zero": {"container": {"resources": {"requests": {"cpu": 0}}}},
    "a port": {"container": {"ports": [{"containerPort": 80, "name": "http-2", "protocol": "UDP"}]}},
    "the largest port": {"container": {"ports": [{"containerPort": 65535}]}},
    "a port of the host": {"container": {"ports": [{"containerPort": 80, "hostPort": 8080}]}},
    "a variable": {"container": {"env": [{"name": "A", "value": ""}, {"name": "a.b-c"}]}},
    "a variable from a field": {
        "container": {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}
    },
    "pulled always": {"container": {"imagePullPolicy": "Always"}},
    "a gate": {"schedulingGates": [{"name": "example.com/a"}, {"name": "b"}]},
    "node affinity": {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]},
                        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
                        {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]},
                    ]
                }
            }
        }
    },
    "wishes of nodes": {
        "affinity": {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 100, "preference": {"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}}
                ]
            }
        }
    },
    "apart": {
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": _LABELS}}
                ]
            }
        }
    },
    "near by wish": {
        "affinity": {
            "podAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {}}}
                ]
            }
        }
    },
    "spread": {
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 2},
            {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"},
        ]
    },
    "on the host's network": {"hostNetwork": True, "container": {"ports": [{"containerPort": 80, "hostPort": 80}]}},
    "another scheduler": {"schedulerName": "tierwise"},
    # Containers.
    "a command": {"container": {"command": ["sh", "-c"], "args": ["echo $(A)", ""], "workingDir": "/w"}},
    "a terminal": {"container": {"stdin": True, "stdinOnce": True, "tty": True}},
    "words at the end": {
        "container": {"terminationMessagePath": "/dev/log", "terminationMessagePolicy": "FallbackToLogsOnError"}
    },
    "an image by digest": {"container": {"image": "a.example.com:5000/b/c@sha256:" + "0" * 64}},
    "all variables of a map": {
        "container": {"envFrom": [{"configMapRef": {"name": "a"}}, {"prefix": "P_", "secretRef": {"name": "b"}}]}
    },
    "a variable of a map and one of a secret": {
        "container": {
            "env": [
                {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "b.c", "optional": True}}},
                {"name": "B", "valueFrom": {"secretKeyRef": {"name": "a", "key": "_b"}}},
            ]
        }
    },
    "a variable of the resources": {
        "container": {
            "resources": {"limits": {"cpu": "2"}},
            "env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}}],
        }
    },
    "a variable of a label": {
        "container": {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a/b']"}}}]}
    },
    "a probe of a page": {
        "container": {
            "readinessProbe": {"httpGet": {"path": "/", "port": "http"}, "failureThreshold": 2},
            "ports": [{"containerPort": 80, "name": "http"}],
        }
    },
    "a probe by a command": {
        "container": {"livenessProbe": {"exec": {"command": ["true"]}, "initialDelaySeconds": 5, "periodSeconds": 3}}
    },
    "a probe of a port at the start": {"container": {"startupProbe": {"tcpSocket": {"port": 80}}}},
    "a probe by grpc": {"container": {"readinessProbe": {"grpc": {"port": 80, "service": "a"}}}},
    "hooks": {
        "container": {
            "lifecycle": {
                "postStart": {"exec": {"command": ["true"]}},
                "preStop": {"httpGet": {"port": 80, "scheme": "HTTPS", "httpHeaders": [{"name": "A", "value": "b"}]}},
            }
        }
    },
    "a sleep before the end": {"container": {"lifecycle": {"preStop": {"sleep": {"seconds": 5}}}}},
    "a user": {
        "securityContext": {"runAsUser": 0, "runAsGroup": 5, "fsGroup": 6, "supplementalGroups": [7, 8]},
        "container": {"securityContext": {"runAsNonRoot": True, "readOnlyRootFilesystem": True}},
    },
    "rights for RDMA": {"container": {"securityContext": {"capabilities": {"add": ["IPC_LOCK"], "drop": ["ALL"]}}}},
    "profiles of the kernel": {
        "securityContext": {
            "seccompProfile": {"type": "RuntimeDefault"},
            "sysctls": [{"name": "net.core.somaxconn", "value": "1024"}],
            "seLinuxOptions": {"level": "s0:c1,c2"},
        }
    },
    "a mount of a part": {
        "volumes": [{"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}],
        "container": {
            "volumeMounts": [{**_MOUNT, "subPath": "a/b", "readOnly": True, "mountPropagation": "HostToContainer"}]
        },
    },
    "an init container that stays": {
        "initContainers": [{"name": "mesh", "image": "b", "restartPolicy": "Always", "ports": [{"containerPort": 1}]}]
    },
    # Volumes.
    "a volume of a map": {
        "volumes": [{"name": "v", "configMap": {"name": "a", "defaultMode": 420, "items": [{"key": "k", "path": "p"}]}}]
    },
    "a volume of a secret": {"volumes": [{"name": "v", "secret": {"secretName": "a", "optional": True}}]},
    "a volume of a claim": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "a", "readOnly": True}}]},
    "a folder of the host": {"volumes": [{"name": "v", "hostPath": {"path": "/dev/shm", "type": "Directory"}}]},
    "a share": {"volumes": [{"name": "v", "nfs": {"server": "a.b", "path": "/c"}}]},
    "a driver's volume": {"volumes": [{"name": "v", "csi": {"driver": "a.b", "volumeAttributes": {"c": "d"}}}]},
    "volumes in one": {
        "serviceAccountName": "default",
        "volumes": [
            {
                "name": "v",
                "projected": {
                    "sources": [
                        {"configMap": {"name": "a"}},
                        {"secret": {"name": "b"}},
                        {"serviceAccountToken": {"path": "token", "expirationSeconds": 600}},
                        {"downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
                    ]
                },
            }
        ],
    },
    "a volume of the pod's fields": {
        "volumes": [
            {
                "name": "v",
                "downwardAPI": {"items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.namespace"}}]},
            }
        ]
    },
    "a volume for the pod's life": {
        "volumes": [
            {
                "name": "v",
                "ephemeral": {
                    "volumeClaimTemplate": {
                        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
                    }
                },
            }
        ]
    },
    # The pod.
    "names of hosts": {
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a.b", "c"]}],
        "hostname": "a-b",
        "subdomain": "c",
        "setHostnameAsFQDN": True,
    },
    "its own dns": {
        "dnsPolicy": "None",
        "dnsConfig": {"nameservers": ["10.0.0.2"], "searches": ["a.b"], "options": [{"name": "ndots", "value": "2"}]},
    },
    "secrets of images": {"imagePullSecrets": [{"name": "a"}], "automountServiceAccountToken": False},
    "the host's processes": {"hostPID": True, "hostIPC": True, "enableServiceLinks": False},
    "one space of processes": {"shareProcessNamespace": True},
    "a system": {"os": {"name": "linux"}},
    "gates of readiness": {"readinessGates": [{"conditionType": "example.com/ready"}]},
    "no preemption": {"preemptionPolicy": "PreemptLowerPriority"},
    "a claim of devices": {
        "resourceClaims": [
            {"name": "d", "resourceClaimTemplateName": "a"},
            {"name": "e", "resourceClaimName": "b"},
        ],
        "container": {"resources": {"claims": [{"name": "d", "request": "r"}, {"name": "e"}]}},
    },
    "resources of the whole pod": {"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "1Gi"}}},
    "near others of its revision": {
        "affinity": {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "topologyKey": "rack",
                        "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
                        "matchLabelKeys": ["pod-template-hash"],
                        "namespaceSelector": {},
                        "namespaces": ["a"],
                    }
                ]
            }
        }
    },
    "spread by policies": {
        "topologySpreadConstraints": [
            {
                **_SPREAD,
                "labelSelector": {"matchLabels": _LABELS},
                "matchLabelKeys": ["rev"],
                "nodeAffinityPolicy": "Ignore",
                "nodeTaintsPolicy": "Honor",
            }
        ]
    },
    "a shorter grace for a probe": {
        "container": {"livenessProbe": {"tcpSocket": {"port": 1}, "terminationGracePeriodSeconds": 1}}
    },
    "quantities of many forms": {
        "container": {
            "resources": {
                "requests": {"cpu": "0.1", "memory": "1e3", "ephemeral-storage": 1000},
                "limits": {"cpu": 2.50, "memory": "128974848", "ephemeral-storage": "1048576Ki"},
            }
        }
    },
}

_BROKEN_SPECS: dict[str, Json] = {
    "no container": {"containers": []},
    "a container without a name": {"containers": [{"image": "a"}]},
    "an upper-case container": {"containers": [{"name": "Main", "image": "a"}]},
    "a long name": {"containers": [{"name": "a" * 64, "image": "a"}]},
    "a container without an image": {"containers": [{"name": "main"}]},
    "two of one name": {"containers": [_CONTAINER, _CONTAINER]},
    "an init container of the same name": {"initContainers": [_CONTAINER]},
    "an odd restart policy": {"restartPolicy": "Sometimes"},
    "an odd dns policy": {"dnsPolicy": "Mine"},
    "a selector with a bad key": {"nodeSelector": {"a/b/c": "d"}},
    "a selector with a bad value": {"nodeSelector": {"a": "b c"}},
    "a toleration of nothing": {"tolerations": [{"operator": "Equal", "value": "v"}]},
    "an odd toleration": {"tolerations": [{"key": "k", "operator": "Like"}]},
    "a toleration of an odd effect": {"tolerations": [{"key": "k", "effect": "NoRun"}]},
    "a toleration with a value too many": {"tolerations": [{"key": "k", "operator": "Exists", "value": "v"}]},
    "a toleration for a time of no effect": {
        "tolerations": [{"key": "k", "effect": "NoSchedule", "tolerationSeconds": 1}]
    },
    "a toleration with a bad key": {"tolerations": [{"key": "a b", "operator": "Exists"}]},
    "a volume twice": {"volumes": [{"name": "v"}, {"name": "v"}]},
    "a volume without a name": {"volumes": [{"emptyDir": {}}]},
    "a volume of a bad name": {"volumes": [{"name": "V"}]},
    "a volume of two sources": {"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]},
    "a mount of no volume": {"container": {"volumeMounts": [{"name": "w", "mountPath": "/w"}]}},
    "a mount without a place": {"volumes": [{"name": "v"}], "container": {"volumeMounts": [{"name": "v"}]}},
    "two mounts at one place": {"volumes": [{"name": "v"}], "container": {"volumeMounts": [_MOUNT, _MOUNT]}},
    "more than the limit": {"container": {"resources": {"requests": {"cpu": 2}, "limits": {"cpu": 1}}}},
    "more memory than the limit": {
        "container": {"resources": {"requests": {"memory": "1Gi"}, "limits": {"memory": "1G"}}}
    },
    "a negative request": {"container": {"resources": {"requests": {"cpu": "-1"}}}},
    "half a device": {"container": {"resources": {"limits": {"nvidia.com/gpu": "0.5"}}}},
    "less than all of the devices": {"container": {"resources": {"requests": {"a.b/c": 1}, "limits": {"a.b/c": 2}}}},
    "devices without a limit": {"container": {"resources": {"requests": {"a.b/c": 1}}}},
    "huge pages alone": {"container": {"resources": {"limits": {"hugepages-2Mi": "4Mi"}}}},
    "a resource of nobody": {"container": {"resources": {"limits": {"gpu": 1}}}},
    "a resource of a bad name": {"container": {"resources": {"limits": {"a.b/c d": 1}}}},
    "no port": {"container": {"ports": [{"containerPort": 0}]}},
    "too large a port": {"container": {"ports": [{"containerPort": 65536}]}},
    "too large a port of the host": {"container": {"ports": [{"containerPort": 1, "hostPort": 65536}]}},
    "an odd protocol": {"container": {"ports": [{"containerPort": 1, "protocol": "ICMP"}]}},
    "a port of a bad name": {"container": {"ports": [{"containerPort": 1, "name": "a-very-long-name-of"}]}},
    "a port of digits": {"container": {"ports": [{"containerPort": 1, "name": "80"}]}},
    "two ports of one name": {"container": {"ports": [{"containerPort": n, "name": "a"} for n in (1, 2)]}},
    "another port on the host's network": {
        "hostNetwork": True,
        "container": {"ports": [{"containerPort": 80, "hostPort": 81}]},
    },
    "a variable without a name": {"container": {"env": [{"value": "a"}]}},
    "a variable of two sources": {
        "container": {"env": [{"name": "A", "value": "b", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}
    },
    "a variable of no source": {"container": {"env": [{"name": "A", "valueFrom": {}}]}},
    "an odd pull policy": {"container": {"imagePullPolicy": "Maybe"}},
    "a gate twice": {"schedulingGates": [{"name": "a"}, {"name": "a"}]},
    "a gate of a bad name": {"schedulingGates": [{"name": "a b"}]},
    "node affinity without terms": {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}
    },
    "an expression of nodes without values": _of_nodes({"key": "a", "operator": "In"}),
    "an expression of nodes with values": _of_nodes({"key": "a", "operator": "Exists", "values": ["b"]}),
    "an expression of nodes of two bounds": _of_nodes({"key": "a", "operator": "Gt", "values": ["1", "2"]}),
    "an odd operator for nodes": _of_nodes({"key": "a", "operator": "Like", "values": ["b"]}),
    "a wish of too much weight": {
        "affinity": {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 101, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}
                ]
            }
        }
    },
    "apart without a key": _apart({"labelSelector": {}}),
    "apart by a bad key": _apart({"topologyKey": "a b", "labelSelector": {}}),
    "apart from bad labels": _apart({"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b c"}}}),
    "apart by an odd operator": _apart(
        {
            "topologyKey": "zone",
            "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]},
        }
    ),
    "spread without a key": _spread(topologyKey=""),
    "spread by nothing": _spread(maxSkew=0),
    "spread in an odd way": _spread(whenUnsatisfiable="Maybe"),
    "spread over no domain": _spread(minDomains=0),
    "spread by wish over domains": _spread(whenUnsatisfiable="ScheduleAnyway", minDomains=2),
    "spread twice": {"topologySpreadConstraints": [_SPREAD, _SPREAD]},
}

_BROKEN_LABELS: dict[str, Json] = {
    "a label of a bad value": {"a": "b c"},
    "a label of a bad key": {"-a": "b"},
    "a label of a bad domain": {"A_B/c": "d"},
    "a long label": {"a": "b" * 64},
}

_SETS = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")
_SIZED = ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController")
_RUN_ON = (*_SETS, "ReplicationController")
_TEMPLATED = (*_RUN_ON, "Job", "CronJob")

# What is put into the spec of a workload, and of which kinds.

_GOOD_WORKLOADS: dict[str, tuple[tuple[str, ...], Json]] = {
    "none": (_SIZED, {"replicas": 0}),
    "a while": ((*_SETS, "ReplicationController"), {"minReadySeconds": 5}),
    "recreated": (("Deployment",), {"strategy": {"type": "Recreate"}}),
    "rolling": (
        ("Deployment",),
        {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "10%", "maxUnavailable": 0}}},
    ),
    "parallel": (("StatefulSet",), {"podManagementPolicy": "Parallel"}),
    "several": (("Job",), {"parallelism": 2, "completions": 4, "completionMode": "Indexed", "backoffLimit": 0}),
    "limited": (("Job",), {"activeDeadlineSeconds": 1, "ttlSecondsAfterFinished": 0}),
    "one after the other": (("CronJob",), {"concurrencyPolicy": "Forbid", "successfulJobsHistoryLimit": 0}),
    "history": (("Deployment", "StatefulSet", "DaemonSet"), {"revisionHistoryLimit": 0}),
    "paused": (("Deployment",), {"paused": True, "progressDeadlineSeconds": 5}),
    "by percent": (("Deployment",), {"strategy": {"rollingUpdate": {"maxSurge": "100%", "maxUnavailable": "25%"}}}),
    "expressions": (_SETS, {"selector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}}),
    "an expression of absence": (
        _SETS,
        {"selector": {"matchLabels": _LABELS, "matchExpressions": [{"key": "no", "operator": "DoesNotExist"}]}},
    ),
    "updated when deleted": (("StatefulSet", "DaemonSet"), {"updateStrategy": {"type": "OnDelete"}}),
    "updated from the end": (
        ("StatefulSet",),
        {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}},
    ),
    "updated with more": (
        ("DaemonSet",),
        {"updateStrategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}},
    ),
    "claims": (
        ("StatefulSet",),
        {
            "volumeClaimTemplates": [
                {
                    "metadata": {"name": "data"},
                    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
                }
            ],
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Retain"},
        },
    ),
    "numbers from": (("StatefulSet",), {"ordinals": {"start": 5}}),
    "suspended": (("Job", "CronJob"), {"suspend": True}),
    "none at a time": (("Job",), {"parallelism": 0}),
    "limits of each index": (
        ("Job",),
        {
            "completionMode": "Indexed",
            "completions": 3,
            "backoffLimitPerIndex": 1,
            "maxFailedIndexes": 2,
            "successPolicy": {"rules": [{"succeededIndexes": "0,2"}]},
        },
    ),
    "rules for failures": (
        ("Job",),
        {
            "podFailurePolicy": {
                "rules": [
                    {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                ]
            }
        },
    ),
    "replaced when failed": (("Job",), {"podReplacementPolicy": "Failed"}),
    "managed elsewhere": (("Job",), {"managedBy": "kueue.x-k8s.io/multikueue"}),
    "in another zone": (("CronJob",), {"timeZone": "Europe/Zurich", "startingDeadlineSeconds": 10}),
    "every so often": (("CronJob",), {"schedule": "@hourly"}),
    "at odd times": (("CronJob",), {"schedule": "*/15 9-17 1,15 * MON-FRI"}),
}
_BROKEN_WORKLOADS: dict[str, tuple[tuple[str, ...], Json]] = {
    "fewer than none": (_SIZED, {"replicas": -1}),
    "a negative while": ((*_SETS, "ReplicationController"), {"minReadySeconds": -1}),
    "no selector": (_SETS, {"selector": None}),
    "an empty selector": (_SETS, {"selector": {}}),
    "a selector of others": (_SETS, {"selector": {"matchLabels": {"app": "other"}}}),
    "a selector with an odd operator": (
        _SETS,
        {"selector": {"matchLabels": _LABELS, "matchExpressions": [{"key": "app", "operator": "Like"}]}},
    ),
    "a plain selector of others": (("ReplicationController",), {"selector": {"app": "other"}}),
    "an odd strategy": (("Deployment",), {"strategy": {"type": "Fast"}}),
    "no update at all": (
        ("Deployment",),
        {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}},
    ),
    "recreated and rolling": (("Deployment",), {"strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}}),
    "an odd order": (("StatefulSet",), {"podManagementPolicy": "Any"}),
    "negative parallelism": (("Job",), {"parallelism": -1}),
    "negative completions": (("Job",), {"completions": -1}),
    "a negative limit": (("Job",), {"backoffLimit": -1}),
    "a negative deadline": (("Job",), {"activeDeadlineSeconds": -1}),
    "a negative time to live": (("Job",), {"ttlSecondsAfterFinished": -1}),
    "indexed without a number": (("Job",), {"completionMode": "Indexed", "parallelism": 2}),
    "an odd mode": (("Job",), {"completionMode": "Odd", "completions": 1}),
    "no schedule": (("CronJob",), {"schedule": ""}),
    "an odd policy": (("CronJob",), {"concurrencyPolicy": "Maybe"}),
    "a negative history": (("CronJob",), {"failedJobsHistoryLimit": -1}),
}

KINDS = ("Pod", *_TEMPLATED)


def drawn(*, good: bool) -> Iterator[tuple[str, Json]]:
    """Objects that a real API server takes, or refuses, each with a name that says what is special about it."""
    specs, workloads = (_GOOD_SPECS, _GOOD_WORKLOADS) if good else (_BROKEN_SPECS, _BROKEN_WORKLOADS)
    for kind in KINDS:
        for about, spec in specs.items():
            yield f"{kind}: {about}", _object(kind, spec)
    for about, (kinds, change) in workloads.items():
        for kind in kinds:
            raw = _object(kind, {})
            raw["spec"] = {name: value for name, value in {**raw["spec"], **change}.items() if value is not None}
            yield f"{kind}: {about}", raw
    if not good:
        yield from _other_broken()


def _other_broken() -> Iterator[tuple[str, Json]]:
    yield "Pod: white space in an image", _object("Pod", {"containers": [{"name": "main", "image": " a"}]})
    for kind in KINDS:
        for about, labels in _BROKEN_LABELS.items():
            raw = _object(kind, {})
            raw["metadata"]["labels"] = labels
            yield f"{kind}: {about}", raw
            if kind != "Pod":
                raw = _object(kind, {})
                _template(raw)["metadata"]["labels"] |= labels
                yield f"{kind}: its template has {about}", raw
        raw = _object(kind, {})
        raw["metadata"]["name"] = "Upper"
        yield f"{kind}: a name in upper case", raw
    for kind in _RUN_ON:
        yield f"{kind}: pods that end", _object(kind, {"restartPolicy": "Never"})
        yield f"{kind}: pods with a deadline", _object(kind, {"activeDeadlineSeconds": 5})
    for kind in ("Job", "CronJob"):
        yield f"{kind}: pods that run on", _object(kind, {"restartPolicy": "Always"})
        yield f"{kind}: pods that run on by default", _object(kind, {"restartPolicy": None})


def _object(kind: str, change: Json) -> Json:
    """An object of a kind whose pods are made with a change."""
    spec: Json = {"containers": [_CONTAINER]}
    spec |= {"restartPolicy": "Never"} if kind in ("Job", "CronJob") else {}
    spec |= {name: value for name, value in change.items() if name != "container"}
    if "container" in change:
        spec["containers"] = [{**_CONTAINER, **change["container"]}]
    spec = copy.deepcopy({name: value for name, value in spec.items() if value is not None})
    name = {"name": "drawn", "namespace": "default"}
    if kind == "Pod":
        return {"apiVersion": "v1", "kind": kind, "metadata": name, "spec": spec}
    template: Json = {"metadata": {"labels": dict(_LABELS)}, "spec": spec}
    body: Json = {"template": template}
    group = "v1" if kind == "ReplicationController" else "batch/v1" if kind in ("Job", "CronJob") else "apps/v1"
    if kind == "ReplicationController":
        body["selector"] = dict(_LABELS)
    elif kind in _SETS:
        body["selector"] = {"matchLabels": dict(_LABELS)}
    elif kind == "CronJob":
        body = {"schedule": "0 * * * *", "jobTemplate": {"spec": body}}
    if kind == "StatefulSet":
        body["serviceName"] = "web"
    return {"apiVersion": group, "kind": kind, "metadata": name, "spec": body}


def _template(raw: Json) -> Json:
    spec = raw["spec"]
    found: Json = spec["jobTemplate"]["spec"]["template"] if raw["kind"] == "CronJob" else spec["template"]
    return found
