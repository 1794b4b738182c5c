"""The programs of the control plane, as tools/ pins them."""

from typing import Final

from engine.go_build import GoModule

_ETCD: Final = GoModule(
    folder="etcd",
    module="go.etcd.io/etcd/server/v3",
    commands={"etcd": "go.etcd.io/etcd/server/v3"},
)
_KUBERNETES: Final = GoModule(
    folder="kubernetes",
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
    module="sigs.k8s.io/kwok",
    commands={name: f"sigs.k8s.io/kwok/cmd/{name}" for name in ("kwok", "kwokctl")},
    files={f"kustomize/stage/{path}.yaml": f"kwok/{path.rpartition('/')[2]}.yaml" for path in _STAGES},
)
KUEUE: Final = GoModule(
    folder="kueue",
    module="sigs.k8s.io/kueue",
    commands={"kueue": "sigs.k8s.io/kueue/cmd/kueue"},
    files={"charts/kueue": "kueue/chart"},
)
_HELM: Final = GoModule(
    folder="helm", module="helm.sh/helm/v3", commands={"helm": "helm.sh/helm/v3/cmd/helm"}
)
KUBERAY: Final = GoModule(
    folder="kuberay",
    module="github.com/ray-project/kuberay/ray-operator",
    commands={"ray-operator": "github.com/ray-project/kuberay/ray-operator"},
    files={"config/crd/bases": "kuberay/crd", "config/rbac": "kuberay/rbac"},
)
MODULES: Final = (_KWOK, _ETCD, _KUBERNETES, KUEUE, _HELM, KUBERAY)
