"""Measures how long a preview and a rehearsal take, as ratios of one run on one machine.

    python -m benchmarks.rehearsal

Every measurement is a process of its own, so that it includes its imports. The two kinds of preview
alternate, so that other load on the machine affects both.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Final

ROUNDS: Final = 5
STACK: Final = "a4-ray"


def _empty_program() -> None:
    """Use only the SDK modules that the stack uses. The SDKs load a module at its first use."""
    import pulumi_gcp as gcp
    import pulumi_kubernetes as kubernetes

    for module in (
        gcp.artifactregistry.RepositoryIamMember,
        gcp.compute.Network,
        gcp.container.Cluster,
        gcp.projects.Service,
        gcp.secretmanager.Secret,
        gcp.serviceaccount.Account,
        gcp.storage.Bucket,
        kubernetes.apiextensions.CustomResource,
        kubernetes.core.v1.Secret,
    ):
        assert module


def _preview(program: Callable[[], None] | None) -> float:
    """The seconds of one preview on the real engine, including the program's imports."""
    from rehearsal.session import Rehearsal

    with Rehearsal(STACK, program=program) as rehearsal:
        began = time.perf_counter()
        rehearsal.preview()
        return time.perf_counter() - began


def _measured(kind: str) -> float:
    output = subprocess.run(
        [sys.executable, "-m", "benchmarks.rehearsal", kind], check=True, capture_output=True, text=True
    ).stdout
    return float(output.splitlines()[-1])


def _rehearsal() -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "rehearsal", STACK], check=True, capture_output=True)
    return time.perf_counter() - began


def main() -> None:
    """Print the medians and their ratio."""
    seconds: dict[str, list[float]] = {"empty": [], STACK: []}
    for _ in range(ROUNDS):
        for kind, taken in seconds.items():
            taken.append(_measured(kind))
    empty, stack = (statistics.median(taken) for taken in seconds.values())
    print(
        f"preview of an empty program that imports the same SDK modules: {empty:.2f} s (median of {ROUNDS})"
    )
    print(f"preview of {STACK}: {stack:.2f} s, {stack / empty:.2f} times as long (bar: 1.7)")
    print(f"whole rehearsal of {STACK}: {_rehearsal():.1f} s (bar: 20)")


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        print(_preview(_empty_program if sys.argv[1] == "empty" else None))
