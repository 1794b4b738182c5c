"""What a rehearsed program talks to in the place of Google Cloud and of its cluster."""

from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self

from cloud import records
from engine.go_build import Log
from rehearsal.cloud_build_server import CloudBuildServer
from rehearsal.fake_cloud import FakeCloud
from rehearsal.fake_google import FakeGoogle
from rehearsal.fake_kubernetes import FakeKubernetes
from rehearsal.fake_provider import FakeProvider
from rehearsal.faults import Faults
from rehearsal.provider_server import ProviderServer

if TYPE_CHECKING:
    from rehearsal import live_cluster
    from rehearsal.control_plane import ControlPlane


class FakeServers:
    """The fake providers and the fake Cloud Build, listening for as long as the context.

    Args:
        cloud: What exists.
        faults: Creations that are to fail.
        plane: A running control plane for the Kubernetes objects, None for none.
        log: Told what the control plane does not check.

    Attributes:
        builds: Where the program's image builds go.
        cluster: The stack's cluster on the control plane, None without one.
        environment: Variables by which engine and program find the servers.
    """

    def __init__(self, cloud: FakeCloud, faults: Faults, plane: "ControlPlane | None", log: Log) -> None:
        # Before the program of another checkout brings its own package `cloud` along.
        records.every()
        self.builds = CloudBuildServer()
        self.cluster: live_cluster.LiveCluster | None = None
        kubernetes: FakeProvider = FakeKubernetes(cloud, faults)
        if plane:
            # Imported where it is needed: most rehearsals do without.
            from rehearsal.applied_objects import ApplyingKubernetes
            from rehearsal.live_cluster import LiveCluster

            self.cluster = LiveCluster(plane, cloud, log)
            kubernetes = ApplyingKubernetes(cloud, faults, self.cluster)
        self._providers = (FakeGoogle(cloud, faults), kubernetes)

    def __enter__(self) -> Self:
        """Starts to listen."""
        with ExitStack() as started:
            started.enter_context(self.builds)
            addresses = []
            for provider in self._providers:
                server = ProviderServer(provider)
                started.callback(server.stop)
                addresses.append(server.address)
            if self.cluster:
                started.callback(self.cluster.stop)
            self.environment = {**self.builds.environment, "PULUMI_DEBUG_PROVIDERS": ",".join(addresses)}
            self._started = started.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends what waits, and stops to listen."""
        self._started.close()
