"""A type of resource that nothing here knows is added by one record, and by nothing else."""

from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pulumi
import pulumi_gcp as gcp
import pytest

from cloud import records, services
from operations.checks.project import needed
from operations.cost.quantities import by_use
from operations.leftovers.candidate import Candidate
from operations.leftovers.kinds import kinds
from operations.plan import StackPlan
from rehearsal import schedule
from rehearsal.errors import RehearsalError
from rehearsal.session import Rehearsal

SETTINGS = {"scenario": "new", "gcp:project": "a-project", "gcp:region": "us-central1"}
TOPIC = "gcp:pubsub/topic:Topic"
RECORD = dedent(
    """
    from cloud.record import Billed, Listing, Minutes, Name, Record, verbs

    TOPIC = Record(
        type="gcp:pubsub/topic:Topic",
        api="pubsub.googleapis.com",
        id="projects/{project}/topics/{name}",
        name=Name(pattern="[A-Za-z][A-Za-z0-9_.~+%-]{2,254}", rule="3 characters or more", automatic=True),
        labels="labels",
        replaced_by="name project",
        minutes=(Minutes(create=0.7, assumption="for this test"),),
        permissions=verbs("pubsub.topics", "create", "delete", "get", "update"),
        role="roles/pubsub.editor",
        listing=Listing(
            title="topic", api="pubsub.v1", collection="projects.topics", gcloud="pubsub topics delete {name}"
        ),
        billed=(
            Billed(key="pubsub.data", what="messages", unit="GiB", service="A1E8", description=".*"),
        ),
    )
    """
)


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The record, in a module of its own that is found as those of cloud/ are."""
    (tmp_path / "pubsub.py").write_text(RECORD)
    monkeypatch.setattr(services, "__path__", [*services.__path__, str(tmp_path)])
    records.every.cache_clear()
    yield
    records.every.cache_clear()


class Program:
    """A topic after its API."""

    topic = "events"

    def __call__(self) -> None:
        api = gcp.projects.Service("pubsub", service="pubsub.googleapis.com")
        awaited = pulumi.ResourceOptions(depends_on=[api])
        topic = gcp.pubsub.Topic("topic", name=self.topic, labels={"stack": "new"}, opts=awaited)
        pulumi.export("topic", topic.id)


def test_without_its_record_a_type_is_rejected() -> None:
    with (
        Rehearsal("new", SETTINGS, Program()) as rehearsal,
        pytest.raises(RehearsalError, match=r"add a record to cloud/services/pubsub\.py"),
    ):
        rehearsal.preview()


@pytest.mark.usefixtures("record")
def test_one_record_makes_a_type_known_everywhere() -> None:
    program = Program()
    with Rehearsal("new", SETTINGS, program) as rehearsal:
        plan = rehearsal.preview()
        assert rehearsal.up().changes == {"create": 3}
        assert rehearsal.preview().changes == {"same": 3}
        program.topic = "ev"
        with pytest.raises(RehearsalError, match="3 characters or more"):
            rehearsal.preview()
        program.topic = "others"
        assert rehearsal.up().changes == {"same": 2, "replace": 1}
        (item,) = rehearsal.cloud.of_type(TOPIC)
        assert item.id == "projects/a-project/topics/others"
        rehearsal.destroy()
        assert rehearsal.cloud.items == []
    up, _ = schedule.phases(plan.resources)
    assert {step.name: round(step.minutes, 2) for step in up.steps} == {"pubsub": 0.3, "topic": 0.7}
    stack = StackPlan(stack="new", project="p", region="r", configuration={}, resources=tuple(plan.resources))
    assert needed(stack)["pubsub.topics.create"] == "roles/pubsub.editor"
    kind = next(kind for kind in kinds.__wrapped__() if kind.title == "topic")
    command = kind.command(Candidate(type=TOPIC, name="events"), "p")
    assert command == "gcloud pubsub topics delete events --project p"
    assert [item.key for item in by_use(stack)] == ["pubsub.data"]
