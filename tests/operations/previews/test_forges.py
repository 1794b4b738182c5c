"""One comment on a merge request, at both forges, whatever goes wrong."""

from collections.abc import Callable, Iterator

import pytest

from operations.errors import OperationError
from operations.previews import forges
from operations.previews.comment import MARKER
from operations.previews.forges import Forge, GitHub, GitLab
from tests.operations.previews.forge_server import COMMIT, TOKEN, ForgeServer, Stored

TEXT = f"{MARKER}\n\nnew\n"
Make = Callable[..., Forge]


@pytest.fixture
def server() -> Iterator[ForgeServer]:
    with ForgeServer() as started:
        yield started


@pytest.fixture(params=["github", "gitlab"])
def make(request: pytest.FixtureRequest, server: ForgeServer) -> Make:

    def made(token: str = TOKEN) -> Forge:
        if request.param == "github":
            return GitHub(repository="owner/name", number=5, token=token, address=server.address)
        return GitLab(project="42", number=5, token=token, address=server.address)

    return made


def test_the_first_preview_makes_a_comment(make: Make, server: ForgeServer) -> None:
    assert make().put(TEXT) == "created"
    assert [each.body for each in server.comments] == [TEXT]


def test_the_next_one_updates_it(make: Make, server: ForgeServer) -> None:
    server.add("somebody's remark", mine=False)
    ours = server.add(f"{MARKER}\n\nold\n")
    assert make().put(TEXT) == "updated"
    assert [each.body for each in server.comments] == ["somebody's remark", TEXT]
    assert ours.body == TEXT


def test_the_comment_is_found_behind_hundreds_of_others(make: Make, server: ForgeServer) -> None:
    for number in range(250):
        server.add(f"remark {number}", mine=False)
    ours = server.add(f"{MARKER}\n\nold\n")
    make().put(TEXT)
    assert ours.body == TEXT
    assert len(server.comments) == 251


def test_nobody_elses_comment_is_touched_though_it_has_the_mark(make: Make, server: ForgeServer) -> None:
    quoted = server.add(f"{MARKER}\n\nforged\n", mine=False)
    assert make().put(TEXT) == "created"
    assert quoted.body == f"{MARKER}\n\nforged\n"
    assert len(server.comments) == 2


def test_an_unchanged_comment_is_not_written_again(make: Make, server: ForgeServer) -> None:
    server.add(TEXT.rstrip())
    make().put(TEXT)
    assert set(server.methods) == {"GET"}


def test_two_jobs_at_once_leave_one_comment(make: Make, server: ForgeServer) -> None:
    """Both find none and make one each; whoever looks again keeps the older."""
    server.after_creating.append(lambda: server.add(f"{MARKER}\n\nof the other job\n"))
    make().put(TEXT)
    assert [each.body for each in server.comments] == [TEXT]


def test_the_later_of_two_jobs_updates_the_comment_of_the_earlier(make: Make, server: ForgeServer) -> None:
    """The other job's comment is older than ours, though neither saw one at first."""
    server.after_creating.append(lambda: server.comments.insert(0, Stored(1, f"{MARKER}\n\nother\n", True)))
    make().put(TEXT)
    assert [each.id for each in server.comments] == [1]
    assert [each.body for each in server.comments] == [TEXT]


def test_leftovers_of_an_earlier_race_are_removed(make: Make, server: ForgeServer) -> None:
    first = server.add(f"{MARKER}\n\none\n")
    server.add(f"{MARKER}\n\ntwo\n")
    make().put(TEXT)
    assert server.comments == [first]
    assert first.body == TEXT


def test_a_refused_token_is_told_with_what_it_must_be_allowed(make: Make, server: ForgeServer) -> None:
    with pytest.raises(OperationError) as raised:
        make(token="another-token-of-somebody").put(TEXT)
    assert "401" in str(raised.value)
    assert "pull-requests: write" in str(raised.value) or "scope `api`" in str(raised.value)
    assert "another-token" not in str(raised.value)
    assert len(server.asked) == 1


def test_a_forbidden_write_is_not_tried_again(make: Make, server: ForgeServer) -> None:
    server.answers = [403]
    with pytest.raises(OperationError, match="403, the token is refused"):
        make().put(TEXT)
    assert len(server.asked) == 1


@pytest.mark.parametrize("fault", [500, 502, 503, 429, 0])
def test_a_passing_fault_is_waited_out_with_a_line_for_each_attempt(
    make: Make, server: ForgeServer, fault: int, waits: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    server.answers = [fault, 200, fault]
    make().put(TEXT)
    assert [each.body for each in server.comments] == [TEXT]
    assert waits == [1, 4]
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith("; attempt 2 in 1 s") and second.endswith("; attempt 3 in 4 s")


def test_a_lasting_fault_ends_with_a_message(make: Make, server: ForgeServer) -> None:
    server.answers = [503] * 99
    with pytest.raises(OperationError, match="503, 4 times; run the job again"):
        make().put(TEXT)


def test_a_comment_written_before_the_answer_was_lost_is_not_written_twice(
    make: Make, server: ForgeServer
) -> None:
    """The forge keeps the comment and the answer never comes: the next attempt finds it."""
    server.lose_creation = True
    make().put(TEXT)
    assert [each.body for each in server.comments] == [TEXT]


def test_another_refusal_is_told(make: Make, server: ForgeServer) -> None:
    server.answers = [422]
    with pytest.raises(OperationError, match="422"):
        make().put(TEXT)


@pytest.fixture
def github(server: ForgeServer) -> dict[str, str]:
    return {"GITHUB_REPOSITORY": "owner/name", "GITHUB_TOKEN": TOKEN, "GITHUB_API_URL": server.address}


def test_the_pull_request_is_the_open_one_that_ends_with_the_commit(
    server: ForgeServer, github: dict[str, str]
) -> None:
    server.pulls = [
        {"number": 3, "state": "closed", "head": {"sha": COMMIT}},
        {"number": 4, "state": "open", "head": {"sha": "d" * 40}},
        {"number": 5, "state": "open", "head": {"sha": COMMIT}},
    ]
    forge = forges.github_pull_request(github, COMMIT)
    assert forge
    forge.put(TEXT)
    assert [each.body for each in server.comments] == [TEXT]


def test_a_commit_that_a_newer_one_follows_gets_no_comment(
    server: ForgeServer, github: dict[str, str]
) -> None:
    server.pulls = [{"number": 5, "state": "open", "head": {"sha": "d" * 40}}]
    assert forges.github_pull_request(github, COMMIT) is None


@pytest.mark.parametrize("name", ["GITHUB_REPOSITORY", "GITHUB_TOKEN", "GITHUB_API_URL"])
def test_what_the_environment_lacks_is_named(github: dict[str, str], name: str) -> None:
    del github[name]
    with pytest.raises(OperationError, match=name):
        forges.github_pull_request(github, COMMIT)


def test_a_merge_request_is_that_of_the_pipeline(server: ForgeServer) -> None:
    forge = forges.gitlab_merge_request(
        {
            "CI_PROJECT_ID": "42",
            "CI_MERGE_REQUEST_IID": "5",
            "GITLAB_TOKEN": TOKEN,
            "CI_API_V4_URL": server.address,
        }
    )
    forge.put(TEXT)
    assert [each.body for each in server.comments] == [TEXT]
