"""The programs of the control plane, built from the Go modules that tools/ pins."""

from typing import Final

from engine.go_build import GoModule

_KUEUE_FILES: Final = {
    "config/components/crd/bases": "kueue/crds",
    "config/components/webhook/manifests.yaml": "kueue/webhooks.yaml",
    "charts/kueue/values.yaml": "kueue/values.yaml",
    "charts/kueue/Chart.yaml": "kueue/Chart.yaml",
}
_STAGES: Final = {
    f"kustomize/stage/{path}.yaml": f"kwok/{path.rpartition('/')[2]}.yaml"
    for path in (
        "node/fast/node-initialize",
        "pod/fast/pod-ready",
        "pod/fast/pod-complete",
        "pod/fast/pod-delete",
    )
}
MODULES: Final = (
    GoModule(
        folder="etcd",
        module="go.etcd.io/etcd/server/v3",
        commands={"etcd": "go.etcd.io/etcd/server/v3"},
        minutes=1,
    ),
    GoModule(
        folder="kubernetes",
        module="k8s.io/kubernetes",
        commands={
            name: f"k8s.io/kubernetes/cmd/{name}"
            for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
        },
        minutes=6,
        version_variable="k8s.io/component-base/version.gitVersion",
    ),
    GoModule(
        folder="kwok",
        module="sigs.k8s.io/kwok",
        commands={"kwok": "sigs.k8s.io/kwok/cmd/kwok"},
        minutes=1,
        files=_STAGES,
    ),
    GoModule(
        folder="kueue",
        module="sigs.k8s.io/kueue",
        commands={"kueue": "sigs.k8s.io/kueue/cmd/kueue"},
        minutes=4,
        files=_KUEUE_FILES,
    ),
)
