"""A Ray cluster that outlives its jobs, as KubeRay's own operator has it."""

from rehearsal import Rehearsal
from rehearsal.control_plane import ControlPlane
from rehearsal.control_plane.ray_dashboards import RUNNING
from tests import plans
from tests.control_plane.training import Training


def test_a_shared_cluster_gives_its_gpus_back_when_it_is_suspended_and_outlives_a_deadline(
    plane: ControlPlane,
) -> None:
    with Rehearsal("a4-ray", {"imageUri": plans.IMAGE, "rayCluster": "shared"}, plane=plane) as stack:
        stack.up()
        (item,) = stack.cloud.of_type("kubernetes:ray.io/v1:RayJob")
        training = Training(plane=plane, stack=stack, tree=item.inputs)
        (cluster,) = stack.cloud.of_type("kubernetes:ray.io/v1:RayCluster")
        for suspended, workers in ((True, 0), (False, 2)):
            plane.api.patch(cluster.inputs, {"spec": {"suspend": suspended}})
            training.comes_to(workers, lambda: len(training.pods("worker")))
            assert stack.preview().changed == 0
            assert stack.refresh().changed == 0

        training.change(activeDeadlineSeconds=1)
        status = training.ends("Failed")
        # Nobody has told it to stop: the training's own limit has to.
        assert status["jobStatus"] == RUNNING
        assert status["jobId"] not in plane.ray.stopped
        assert len(training.pods("worker")) == 2
        stack.destroy()
