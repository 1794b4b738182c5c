"""Where nodes come from, said once and rendered for pods and for node pools."""

import re

import pytest

from components.cluster.capacity import Capacity, CapacityType, Reservation

OWN = Reservation(name="b200")
SHARED = Reservation(name="b200", project="owner-project", block="block-1", sub_block="sub-2")


PATH = "projects/owner-project/reservations/b200/reservationBlocks/block-1/reservationSubBlocks/sub-2"


@pytest.mark.parametrize(
    ("text", "reservation"),
    [
        ("b200", OWN),
        ("b200/reservationBlocks/block-1", Reservation(name="b200", block="block-1")),
        ("projects/owner-project/reservations/b200", Reservation(name="b200", project="owner-project")),
        (
            "projects/owner-project/reservations/b200/reservationBlocks/block-1",
            Reservation(name="b200", project="owner-project", block="block-1"),
        ),
        (PATH, SHARED),
    ],
)
def test_a_reservation_is_a_name_or_a_path_and_a_node_pool_names_it_so(
    text: str, reservation: Reservation
) -> None:
    assert Reservation.parse(text) == reservation
    assert reservation.path == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "B200",
        "b200-",
        "projects/owner-project/b200",
        "projects/owner-project/zones/us-central1-b/reservations/b200",
        "projects/owner-project/reservations/b200/reservationBlocks/",
        "https://www.googleapis.com/compute/v1/projects/owner-project/reservations/b200",
        "b200\n",
    ],
)
def test_any_other_shape_of_a_reservation_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="neither the name of a reservation"):
        Reservation.parse(text)


@pytest.mark.parametrize(
    ("capacity", "selectors"),
    [
        (Capacity(type=CapacityType.ON_DEMAND), {}),
        (Capacity(type=CapacityType.SPOT), {"gke-spot": "true"}),
        (Capacity(type=CapacityType.FLEX_START), {"gke-flex-start": "true"}),
        (
            Capacity(type=CapacityType.RESERVATION, reservation=OWN),
            {"reservation-affinity": "specific", "reservation-name": "b200"},
        ),
        (
            Capacity(type=CapacityType.RESERVATION, reservation=SHARED),
            {
                "reservation-affinity": "specific",
                "reservation-name": "b200",
                "reservation-project": "owner-project",
                "reservation-blocks": "block-1",
                "reservation-subblocks": "sub-2",
            },
        ),
    ],
)
def test_autopilot_pods_select_the_capacity(capacity: Capacity, selectors: dict[str, str]) -> None:
    assert capacity.pod_selectors() == {f"cloud.google.com/{key}": value for key, value in selectors.items()}
    for value in selectors.values():
        # What Kubernetes takes of a label's value.
        assert re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", value)


def test_autopilot_takes_no_longer_run_time_for_spot_pods() -> None:
    not_evicted = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
    for kind in (CapacityType.ON_DEMAND, CapacityType.FLEX_START):
        assert Capacity(type=kind).pod_annotations() == not_evicted
    assert Capacity(type=CapacityType.SPOT).pod_annotations() == {}


@pytest.mark.parametrize(
    ("kind", "hours", "duration"),
    [
        (CapacityType.SPOT, 12, "50400s"),
        (CapacityType.SPOT, None, None),
        (CapacityType.FLEX_START, None, "604800s"),
        (CapacityType.FLEX_START, 12, "50400s"),
        (CapacityType.FLEX_START, 168, "604800s"),
    ],
)
def test_a_node_lives_somewhat_longer_than_a_run_may_train_and_no_longer_than_its_capacity_allows(
    kind: CapacityType, hours: int | None, duration: str | None
) -> None:
    assert Capacity(type=kind).node_config(hours)["max_run_duration"] == duration


@pytest.mark.parametrize(
    ("capacity", "deadline"),
    [
        (Capacity(type=CapacityType.RESERVATION, reservation=OWN), 14),
        (Capacity(type=CapacityType.ON_DEMAND), 14),
        (Capacity(type=CapacityType.SPOT), None),
        (Capacity(type=CapacityType.FLEX_START), None),
    ],
)
def test_kubernetes_ends_no_job_that_may_wait_for_machines_without_bound(
    capacity: Capacity, deadline: int | None
) -> None:
    assert capacity.deadline_hours(12) == deadline
    assert capacity.deadline_hours(None) is None


@pytest.mark.parametrize("reservation", [OWN, SHARED])
def test_a_node_pool_consumes_its_reservation_and_without_one_none(reservation: Reservation) -> None:
    reserved = Capacity(type=CapacityType.RESERVATION, reservation=reservation).node_config()
    affinity = reserved["reservation_affinity"]
    assert affinity.consume_reservation_type == "SPECIFIC_RESERVATION"
    assert affinity.key == "compute.googleapis.com/reservation-name"
    assert affinity.values == [reservation.path]
    for kind in (CapacityType.ON_DEMAND, CapacityType.SPOT, CapacityType.FLEX_START):
        affinity = Capacity(type=kind).node_config()["reservation_affinity"]
        assert affinity.consume_reservation_type == "NO_RESERVATION"
