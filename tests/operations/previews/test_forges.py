"""There is one comment on a merge request, at both forges and after all faults."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from operations.errors import OperationError
from operations.previews import forges
from operations.previews.comment import MARKER
from tests.operations.previews.forge_server import COMMIT, ForgeServer, Stored

TEXT = f"{MARKER}\n\nnew\n"
OURS = f"{MARKER}\n\nold\n"
Post = Callable[..., str]


@pytest.fixture
def server() -> Iterator[ForgeServer]:
    with ForgeServer() as started:
        yield started


@pytest.fixture(params=forges.LIMITS)
def post(request: pytest.FixtureRequest, server: ForgeServer) -> Post:
    """Puts the comment on the merge request, at each of the forges."""
    return lambda **more: forges.post(request.param, {**server.environment, **more}, COMMIT, TEXT)


def test_the_first_preview_makes_a_comment_and_the_next_one_keeps_it(post: Post, server: ForgeServer) -> None:
    assert post() == "comment created"
    server.methods.clear()
    assert post() == "comment updated"
    assert server.bodies == [TEXT]
    assert set(server.methods) == {"GET"}


def test_ours_is_updated_behind_hundreds_of_others_and_nobody_elses_is_touched(
    post: Post, server: ForgeServer
) -> None:
    for number in range(250):
        server.add(f"remark {number}", mine=False)
    quoted = server.add(OURS, mine=False)
    server.add(OURS)
    others = server.bodies[:-1]
    assert post() == "comment updated"
    assert server.bodies == [*others, TEXT]
    assert quoted.body == OURS


@pytest.mark.parametrize("where", [0, 1])
def test_two_jobs_at_once_leave_one_comment_the_older(where: int, post: Post, server: ForgeServer) -> None:
    """Both see no comment and create one each. Then both look again and keep the older one."""
    other = Stored(200 if where else 1, OURS, mine=True)
    server.after_creating.append(lambda: server.comments.insert(where, other))
    post()
    assert [comment.id for comment in server.comments] == [101 if where else 1]
    assert server.bodies == [TEXT]


def test_leftovers_of_an_earlier_race_are_removed(post: Post, server: ForgeServer) -> None:
    first, _ = server.add(OURS), server.add(OURS)
    post()
    assert server.comments == [first]
    assert first.body == TEXT


@pytest.mark.parametrize("status", [401, 403])
def test_a_rejected_token_is_told_with_what_it_must_be_allowed(
    status: int, post: Post, server: ForgeServer
) -> None:
    server.answers = [status] * 9
    with pytest.raises(OperationError, match=f"{status}, the token is rejected") as raised:
        post(GITHUB_TOKEN="another-token", GITLAB_TOKEN="another-token")
    assert "pull-requests: write" in str(raised.value) or "scope `api`" in str(raised.value)
    assert "another-token" not in str(raised.value)
    assert len(server.methods) == 1


@pytest.mark.parametrize("fault", [500, 502, 503, 429, 0])
def test_a_passing_fault_is_waited_out_with_a_line_for_each_attempt(
    post: Post, server: ForgeServer, fault: int, waits: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    server.answers = [fault, 200, fault]
    post()
    assert server.bodies == [TEXT]
    assert waits == [1, 4]
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith("; attempt 2 in 1 s") and second.endswith("; attempt 3 in 4 s")


def test_a_lasting_fault_ends_with_a_message(post: Post, server: ForgeServer) -> None:
    server.answers = [503] * 99
    with pytest.raises(OperationError, match="4 times; run the job again"):
        post()


def test_a_comment_written_before_the_answer_was_lost_is_not_written_twice(
    post: Post, server: ForgeServer
) -> None:
    """The forge keeps the comment and the answer never comes: the next attempt finds it."""
    server.lose_creation = True
    post()
    assert server.bodies == [TEXT]
    assert server.methods.count("POST") == 1


def test_another_rejection_is_told(post: Post, server: ForgeServer) -> None:
    server.answers = [422]
    with pytest.raises(OperationError, match="422"):
        post()


@pytest.mark.parametrize("open_one", [True, False])
def test_the_pull_request_is_the_open_one_that_ends_with_the_commit(
    open_one: bool, server: ForgeServer
) -> None:
    server.pulls = [
        {"number": 4, "head": {"sha": "d" * 40}},
        *(server.pulls if open_one else ()),
    ]
    line = forges.post("github", server.environment, COMMIT, TEXT)
    assert line == "comment created" if open_one else "a newer commit has its own preview" in line
    assert server.bodies == [TEXT] * open_one


@pytest.mark.parametrize("forge", forges.LIMITS)
def test_what_the_environment_lacks_is_named(forge: str, server: ForgeServer) -> None:
    needed = server.environment.keys() - {"HEAD_REPOSITORY", "CI_MERGE_REQUEST_SOURCE_PROJECT_ID"}
    names = [name for name in needed if name.startswith("GITHUB") == (forge == "github")]
    for name in names:
        with pytest.raises(OperationError, match=name):
            lacking = {**server.environment, name: ""}
            if name == "CI_PIPELINE_ID":
                forges.saved_in_pipeline(lacking, 1)
            forges.post(forge, lacking, COMMIT, TEXT)


def test_a_login_of_the_persons_netrc_does_not_replace_the_token(
    post: Post, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password mine")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    assert post() == "comment created"
