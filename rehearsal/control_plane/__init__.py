"""A real Kubernetes control plane on this machine, for the rehearsal and the tests."""

from rehearsal.control_plane.cluster import ControlPlane

__all__ = ["ControlPlane"]
