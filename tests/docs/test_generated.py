"""The committed pages are what `make docs` writes, and the settings' reference is complete."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import pytest
import yaml

import stacks
from docs_generator import figures, picture, settings_reference
from docs_generator.pages import README, page_of, pages
from docs_generator.parts import DocumentationError, scenarios
from engine.plan import Plan, Planned
from operations.cost.command import listed_estimate
from operations.plan import StackPlan
from rehearsal.schedule import phases
from stacks.scenarios import a4_ray
from stacks.settings.cluster import Cluster
from stacks.settings.model import keys_of, topics_of
from tests import plans
from tests.neutral_stacks import NEUTRAL, neutral_stacks

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def committed() -> dict[Path, str]:
    """The texts of the pages in which the tests look. The first test compares them."""
    paths = (ROOT / "docs" / "settings.md", README, *map(page_of, scenarios()))
    return {path: path.read_text() for path in paths}


def test_the_committed_pages_are_what_the_program_says() -> None:
    generated = pages(plans.shipped)
    stale = [str(path.relative_to(ROOT)) for path, text in generated.items() if path.read_text() != text]
    assert not stale, "`make docs` writes them anew; read the diff"


@pytest.mark.parametrize("scenario", scenarios())
def test_every_page_of_a_stack_has_the_same_sections_in_the_same_order(scenario: str) -> None:
    headings = re.findall(r"^## (.+)$", page_of(scenario).read_text(), re.MULTILINE)
    # A stack that serves something says how between the last two.
    assert [heading for heading in headings if heading != "Serve"] == [
        "What it stands up",
        "What it costs and needs",
        "Run",
        "Watch",
        "Resume",
        "Remove",
        "What is created, and in which order",
    ]


def test_the_table_of_a_stack_has_all_of_its_keys_once(committed: dict[Path, str]) -> None:
    tables = tables_of_settings(committed)
    for name, scenario in stacks.scenario_modules().items():
        rows = re.findall(r"^\| `([^`]+)`", tables[name], re.MULTILINE)
        assert sorted(rows) == sorted(keys_of(scenario.Settings))


def test_a_topic_of_several_scenarios_is_explained_once_where_their_tables_link_to(
    committed: dict[Path, str],
) -> None:
    text, tables = committed[ROOT / "docs" / "settings.md"], tables_of_settings(committed)
    links = set(re.findall(r"\*\*\[([^]]+)\]\(#([a-z0-9-]+)\)\*\*", text))
    assert {title for title, _ in links} == {*tables} - {*stacks.scenario_modules(), "What a change replaces"}
    for title, anchor in links:
        assert anchor == title.lower().replace(" ", "-")
    kinds = [
        kind
        for scenario in stacks.scenario_modules().values()
        for kind in topics_of(scenario.Settings).values()
    ]
    for kind in kinds:
        for field in kind.model_fields.values():
            assert str(field.description) in text


def tables_of_settings(committed: dict[Path, str]) -> dict[str, str]:
    """The sections of the page of settings, by their headings."""
    _, *sections = committed[ROOT / "docs" / "settings.md"].split("\n## ")
    return {section.splitlines()[0]: section for section in sections}


def test_a_setting_without_a_description_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(a4_ray.Settings.model_fields["workers"], "description", None)
    with pytest.raises(DocumentationError, match="workers of a4-ray: add a `description`"):
        settings_reference.page()


@pytest.mark.parametrize(
    "recipe", sorted(ROOT.glob("workloads/**/recipes/*.yaml")), ids=lambda path: path.stem
)
def test_an_editor_checks_a_recipe_by_the_schema_that_it_names(recipe: Path) -> None:
    (named,) = re.findall(r"\A# yaml-language-server: \$schema=(\S+)\n", recipe.read_text())
    schema = json.loads((recipe.parent / named).read_text())
    tree = yaml.safe_load(recipe.read_text())
    jsonschema.validate(tree, schema)
    with pytest.raises(jsonschema.ValidationError, match="of_no_recipe"):
        jsonschema.validate({**tree, "of_no_recipe": 1}, schema)


# The figures


@pytest.mark.parametrize("scenario", scenarios())
def test_page_readme_and_command_have_the_same_dollars(scenario: str, committed: dict[Path, str]) -> None:
    planned = StackPlan(
        stack=scenario,
        project="my-project",
        region="us-central1",
        configuration={"llm-stacks:scenario": scenario},
        resources=plans.shipped(scenario).resources,
    )
    estimate = listed_estimate(planned, None)
    dollars = estimate.totals["per_month"]["dollars"]
    month = f"{dollars:,.0f}" if dollars >= 100 else f"{dollars:,.2f}"
    (row,) = re.findall(rf"^\|.*\| \[`{scenario}`\].*$", committed[README], re.MULTILINE)
    assert month in row.split(" | ")[-1]
    (shown,) = re.findall(r"^\| a month forgotten.* \| (.*) \|$", committed[page_of(scenario)], re.MULTILINE)
    assert shown == row.split(" | ")[-1].removesuffix(" |")
    for line in estimate.lines:
        if line.per_hour is not None:
            assert f"| {line.what} | " in committed[page_of(scenario)]


@pytest.mark.parametrize("scenario", scenarios())
def test_page_and_readme_have_the_minutes_that_the_clock_computes(
    scenario: str, committed: dict[Path, str]
) -> None:
    first = plans.shipped(scenario).resources
    again = [resource for resource in first if not resource.type.endswith("cloudbuild:Build")]
    (row,) = re.findall(rf"^\|.*\| \[`{scenario}`\].*$", committed[README], re.MULTILINE)
    minutes = [phases(resources)[0].minutes for resources in (first, again)]
    assert row.split(" | ")[3] == f"{minutes[0]:.0f}"
    page = " ".join(committed[page_of(scenario)].split())
    first_up, next_up = (f"{figure:.1f} minutes" for figure in minutes)
    with_build = (
        f"`up` takes {first_up} with the first build of the image, and {next_up} once the image exists. "
    )
    without_build = f"`up` takes {first_up}. "
    assert (without_build if first == tuple(again) else with_build) in page


def test_a_scenario_that_trains_nothing_has_no_line_for_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    with neutral_stacks():
        plan = plans.shipped(NEUTRAL)
        assert "| a run: no source says how long it takes" in figures.section(NEUTRAL, plan)
        monkeypatch.setattr("stacks.scenario_modules", lambda: {NEUTRAL: SimpleNamespace(Settings=Cluster)})
        assert "| a run" not in figures.section(NEUTRAL, plan)
        assert figures.row(NEUTRAL, plan)[2] == "no runs"


# The picture


def test_a_component_waits_for_what_its_resources_wait_for() -> None:
    drawn = picture.section("small", plan_of_three())
    assert "Network --> AutopilotCluster" in drawn
    assert "AutopilotCluster --> RayJob" in drawn


def test_an_arrow_that_follows_from_others_is_left_out() -> None:
    assert "Network --> RayJob" not in picture.section("small", plan_of_three())


def test_who_has_a_role_on_what_is_no_order_of_creation() -> None:
    drawn = picture.section("a4-ray", plans.shipped("a4-ray"))
    assert "AutopilotCluster -.-> Bucket" in drawn
    assert "AutopilotCluster --> Bucket" not in drawn


def test_a_component_in_a_folder_without_a_place_in_the_picture_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(picture, "_GROUPS", ("network",))
    with pytest.raises(DocumentationError, match=r"Bucket is in components/storage: add the folder"):
        picture.section("small", Plan(resources=(STACK, component("Bucket")), changes={}))


def test_a_resource_outside_of_all_components_is_named() -> None:
    loose = resource("gcp:storage/bucket:Bucket", "loose", parent=STACK.urn)
    with pytest.raises(DocumentationError, match=r"loose .*is in no component"):
        picture.section("small", Plan(resources=(STACK, loose), changes={}))


def resource(type: str, name: str, parent: str, needs: tuple[str, ...] = ()) -> Planned:
    urn = f"urn:pulumi:small::llm-stacks::{type}::{name}"
    return Planned(type=type, name=name, urn=urn, parent=parent, op="create", inputs={}, dependencies=needs)


STACK = resource("pulumi:pulumi:Stack", "llm-stacks-small", parent="")


def component(kind: str) -> Planned:
    return resource(f"llm-stacks:components:{kind}", "small", parent=STACK.urn)


def plan_of_three() -> Plan:
    """A job that waits for a cluster and for the network that the cluster waits for."""
    network, cluster, job = component("Network"), component("AutopilotCluster"), component("RayJob")
    subnet = resource("gcp:compute/subnetwork:Subnetwork", "small-subnet", network.urn)
    nodes = resource("gcp:container/cluster:Cluster", "small-cluster", cluster.urn, (subnet.urn,))
    work = resource("kubernetes:ray.io/v1:RayJob", "small-job", job.urn, (nodes.urn, subnet.urn))
    return Plan(resources=(STACK, network, cluster, job, subnet, nodes, work), changes={})
