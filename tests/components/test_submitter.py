"""A submitter of a Ray job does not outlive its Ray cluster."""

import os
import subprocess
import sys

import pytest
import yaml

from components.base.manifest import MANIFESTS
from rehearsal.stand_ins.loopback import LoopbackServer, Request


class Dashboard(LoopbackServer):
    """As far as the probe asks it."""

    def serve(self, request: Request) -> None:
        request.answer(200 if request.path == "/api/version" else 404, b"{}")


def succeeds(address: str) -> bool:
    """Whether the probe of the manifest, run as a kubelet runs it, finds the dashboard."""
    tree = yaml.safe_load((MANIFESTS / "ray-job.yaml").read_text())
    (container,) = tree["spec"]["submitterPodTemplate"]["spec"]["containers"]
    interpreter, *arguments = container["livenessProbe"]["exec"]["command"]
    assert interpreter == "python"
    environment = {**os.environ, "RAY_DASHBOARD_ADDRESS": address, "no_proxy": "127.0.0.1"}
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, check=False)
    return done.returncode == 0


@pytest.mark.parametrize("scheme", ["", "http://"])
def test_a_submitter_is_alive_while_its_dashboard_answers(scheme: str) -> None:
    with Dashboard() as dashboard:
        address = scheme + dashboard.address.removeprefix("http://")
        assert succeeds(address)
    assert not succeeds(address)
