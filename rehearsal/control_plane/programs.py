"""The programs of the control plane, in the versions that tools/ pins."""

from typing import Final

from engine.go_build import GoModule

# Ten minutes in all on two idle cores: 1,157 CPU seconds, measured from an empty cache on 2026-11-25.
_ETCD: Final = GoModule(
    folder="etcd",
    minutes=0.5,
    module="go.etcd.io/etcd/server/v3",
    commands={"etcd": "go.etcd.io/etcd/server/v3"},
)
_KUBERNETES: Final = GoModule(
    folder="kubernetes",
    minutes=4,
    module="k8s.io/kubernetes",
    commands={
        name: f"k8s.io/kubernetes/cmd/{name}"
        for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
    },
    version_variable="k8s.io/component-base/version.gitVersion",
)
_STAGES: Final = ("node/fast/node-initialize", "pod/fast/pod-ready", "pod/fast/pod-delete")
_KWOK: Final = GoModule(
    folder="kwok",
    minutes=1,
    module="sigs.k8s.io/kwok",
    commands={name: f"sigs.k8s.io/kwok/cmd/{name}" for name in ("kwok", "kwokctl")},
    files={f"kustomize/stage/{path}.yaml": f"kwok/{path.rpartition('/')[2]}.yaml" for path in _STAGES},
)
KUEUE: Final = GoModule(
    folder="kueue",
    minutes=2.5,
    module="sigs.k8s.io/kueue",
    commands={"kueue": "sigs.k8s.io/kueue/cmd/kueue"},
    files={"charts/kueue": "kueue/chart"},
    # GKE installs the kind with every cluster.
    files_of_others={
        "k8s.io/autoscaler/cluster-autoscaler/apis": {
            "config/crd/autoscaling.x-k8s.io_provisioningrequests.yaml": "kueue/provisioningrequests.yaml"
        }
    },
)
HELM: Final = GoModule(
    folder="helm", minutes=1, module="helm.sh/helm/v3", commands={"helm": "helm.sh/helm/v3/cmd/helm"}
)
KUBERAY: Final = GoModule(
    folder="kuberay",
    minutes=1,
    module="github.com/ray-project/kuberay/ray-operator",
    commands={"ray-operator": "github.com/ray-project/kuberay/ray-operator"},
    files={"config/crd/bases": "kuberay/crd", "config/rbac": "kuberay/rbac"},
)
# No part of the control plane: it asks what the dashboards and alerts ask Google's.
PROMETHEUS: Final = GoModule(
    folder="prometheus",
    minutes=1.5,
    module="github.com/prometheus/prometheus",
    commands={name: f"github.com/prometheus/prometheus/cmd/{name}" for name in ("prometheus", "promtool")},
    # Only targets that its configuration names. The other kinds are most of the program.
    tags="remove_all_sd",
)
MODULES: Final = (_KWOK, _ETCD, _KUBERNETES, KUEUE, HELM, KUBERAY)
