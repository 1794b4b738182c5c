"""A Ray cluster that outlives its jobs, as KubeRay's own operator has it."""

from rehearsal.control_plane import ControlPlane
from rehearsal.control_plane.ray_dashboards import RUNNING
from rehearsal.ray_courses import Training
from rehearsal.session import Rehearsal
from tests import plans


def test_a_shared_cluster_gives_its_gpus_back_when_it_is_suspended_and_outlives_a_deadline(
    plane: ControlPlane,
) -> None:
    with Rehearsal("a4-ray", {"imageUri": plans.IMAGE, "rayCluster": "shared"}, plane=plane) as stack:
        stack.up()
        (item,) = stack.cloud.of_type("kubernetes:ray.io/v1:RayJob")
        assert stack.cluster
        training = Training(cluster=stack.cluster, tree=item.inputs)
        (cluster,) = stack.cloud.of_type("kubernetes:ray.io/v1:RayCluster")
        for suspended, workers in ((True, 0), (False, 2)):
            plane.api.patch(cluster.inputs, {"spec": {"suspend": suspended}})
            training.comes_to({"workers": workers}, lambda: {"workers": len(training.pods("worker"))})
            assert stack.preview().changed == 0
            assert stack.refresh().changed == 0

        plane.api.patch(training.tree, {"spec": {"activeDeadlineSeconds": 1}})
        # Nobody has told it to stop: the training's own limit has to.
        training.comes_to({"jobDeploymentStatus": "Failed", "jobStatus": RUNNING}, training.now)
        assert training.now()["jobId"] not in plane.ray.stopped
        assert len(training.pods("worker")) == 2
        stack.destroy()
