"""The real vLLM serves what the stacks give it: it starts, answers as trained, and loses no request."""

import pytest

from tests.serving.visits import Visit


def test_it_is_healthy_and_has_the_name_that_the_stack_gives_it(visit: Visit) -> None:
    assert visit.health == 200
    assert visit.name in visit.names


def test_a_merged_model_answers_as_it_does_by_transformers(visit: Visit) -> None:
    if visit.shape.adapter:
        pytest.skip("this stack serves the adapter")
    assert visit.answers[visit.name] == [answer["tokens"] for answer in visit.expected["merged"]]


def test_it_reads_a_bucket_and_asks_the_hub_for_nothing(visit: Visit) -> None:
    assert visit.asked_of_the_hub == []


def test_a_trained_answer_has_several_tokens(visit: Visit) -> None:
    """Otherwise equal answers would prove little."""
    for answer in visit.expected["merged"]:
        assert len(set(answer["tokens"])) > 2


def test_an_adapter_on_its_base_answers_as_the_merged_model_and_as_peft(visit: Visit) -> None:
    if not visit.shape.adapter:
        pytest.skip("this stack serves the merged model")
    merged, adapter = (
        [answer["tokens"] for answer in visit.expected[weights]] for weights in ("merged", "adapter")
    )
    assert visit.answers[visit.shape.adapter] == adapter == merged
    assert visit.answers[visit.shape.adapter] != visit.answers[visit.name]


def test_contents_may_have_parts(visit: Visit) -> None:
    assert visit.in_parts == visit.answers[visit.name]


def test_an_unknown_model_and_a_prompt_that_is_too_long_are_refused(visit: Visit) -> None:
    status, message = visit.unknown
    assert (status, message) == (404, "The model `somebody/else` does not exist.")
    status, message = visit.too_long
    assert status == 400
    assert "maximum context length" in message


def test_the_command_prints_what_the_trained_model_answers(visit: Visit) -> None:
    """`python -m operations ask`: it asks an adapter before its base, and prints the answer alone."""
    weights = "adapter" if visit.shape.adapter else "merged"
    expected = [answer["text"] for answer in visit.expected[weights]]
    assert [(typed.returncode, typed.stderr) for typed in visit.typed] == [(0, "")] * len(expected)
    assert [typed.stdout.removesuffix("\n") for typed in visit.typed] == expected


@pytest.mark.parametrize("metric", ["vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"])
def test_it_has_the_metrics_of_an_autoscaler(metric: str, visit: Visit) -> None:
    names = {line.partition("{")[0] for line in visit.metrics.splitlines()}
    assert metric in names


def test_prometheus_answers_what_the_dashboard_asks(visit: Visit) -> None:
    assert visit.unanswered == []


def test_requests_in_flight_at_its_end_are_answered(visit: Visit) -> None:
    """Sixteen clients ask on and on while the platform ends the server.

    vLLM refuses what it has not begun to answer. So a pod sleeps before SIGTERM, and gets no requests then.
    """
    begun = [request for request in visit.last if 0 < request.began < visit.sigterm]
    assert sum(request.ended > visit.sigterm for request in begun) > 8, "few requests were in flight"
    assert [request for request in begun if not request.whole] == []
    assert visit.exit_code == 0
