"""Tokens and credentials in the settings: what is rejected, and that no message repeats it."""

import pytest

from stacks.settings.reader import ConfigReader
from tests.stacks.configuration import load, problems


def test_a_token_in_plain_text_is_rejected_and_not_repeated() -> None:
    (problem,) = problems({}, secrets=())
    assert problem.startswith("hfToken: is stored in plain text")
    assert "hf_secret_of_the_test" not in problem


@pytest.mark.parametrize("token", ["", "hf_one\n", "hf one"])
def test_a_token_that_was_pasted_wrongly_is_rejected_and_not_repeated(token: str) -> None:
    keys = ("llm-stacks:hfToken", "llm-stacks:wandbKey")
    problem, other = problems(dict.fromkeys(keys, token), secrets=keys)
    assert problem.startswith("hfToken: is empty or holds white space")
    assert other.startswith("wandbKey: is empty or holds white space")
    assert not token.strip() or token.strip() not in other
    assert not token.strip() or token.strip() not in problem


@pytest.mark.parametrize(
    "key", ["my_key", "a1B2" * 9, "local-" + "a1B2" * 9, f"{'a1B2' * 9}-a1B", "a1B2!" * 9]
)
def test_what_cannot_be_a_key_of_weights_and_biases_is_rejected_and_not_repeated(key: str) -> None:
    (problem,) = problems({"llm-stacks:wandbKey": key}, secrets=("llm-stacks:hfToken", "llm-stacks:wandbKey"))
    assert problem.startswith("wandbKey: is shorter than 40 characters, or has characters that no key has")
    assert key not in problem


@pytest.mark.parametrize("key", ["0123456789abcdef" * 3, "local-" + "a1B2" * 10, "wandb_v1_" + "a1B2c3" * 13])
def test_every_form_of_a_key_of_weights_and_biases_is_taken(key: str) -> None:
    keys = ("llm-stacks:hfToken", "llm-stacks:wandbKey")
    assert load({"llm-stacks:wandbKey": key}, secrets=keys).training.wandb_key.get_secret_value() == key


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("gcp:accessToken", "ya29.of-a-test"),
        ("gcp:credentials", '{"type": "service_account", "private_key": "of-a-test"}'),
        ("gcp:credentials", ' {"type": "authorized_user", "refresh_token": "of-a-test"}'),
    ],
)
def test_what_gives_access_to_google_is_rejected_in_plain_text_and_not_repeated(key: str, value: str) -> None:
    (problem,) = problems({key: value})
    remedy = f"remove it from the stack file, then `pulumi config set --secret {key}` asks for it"
    assert problem.startswith(f"{key}: is stored in plain text; {remedy}")
    assert "of-a-test" not in problem
    assert load({key: value}, secrets=("llm-stacks:hfToken", key))


def test_a_path_of_credentials_gives_nobody_access() -> None:
    assert load({"gcp:credentials": "/home/me/key.json"})


def test_the_content_of_credentials_is_the_providers_to_read() -> None:
    content = '{"type": "service_account", "project_id": "p"}'
    config = ConfigReader(stack="s", project="p", values={"gcp:credentials": content}, secrets=())
    assert config.text("gcp:credentials") == content


@pytest.mark.parametrize(
    "token", ["MY_TOKEN", "sk-of-somebody-else", "hf_t\N{LATIN SMALL LETTER U WITH DIAERESIS}r"]
)
def test_what_cannot_be_a_token_of_the_hub_is_rejected_and_not_repeated(token: str) -> None:
    (problem,) = problems({"llm-stacks:hfToken": token})
    assert problem.startswith("hfToken: does not begin with hf_, or has characters that no token has")
    assert token not in problem


def test_other_settings_of_the_providers_are_theirs_to_read() -> None:
    load(
        {
            "gcp:disableGlobalProjectWarning": "true",
            "gcp:batching": '{"sendAfter": "1s"}',
            "kubernetes:context": "x",
        }
    )
