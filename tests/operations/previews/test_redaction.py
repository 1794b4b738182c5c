"""Planted secrets never come out."""

import base64
import json
from typing import Any

import pytest

from engine.secrets import SECRET
from operations.previews.redaction import Redaction, secret_configuration, secret_variables

# Put together here, so that no scanner of this repository takes them for somebody's.
HUGGING_FACE = "hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYz01234567"
GOOGLE = "ya29." + "a0AfH6SMBx-planted_in-a.test" + "x" * 60
KEY = "-----BEGIN " + "PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0\nAQEFAASC\n-----END " + "PRIVATE KEY-----\n"
WEB_TOKEN = "eyJ" + "hbGciOiJSUzI1NiJ9.eyJ" + "zdWIiOiJwbGFudGVkIn0.c2lnbmF0dXJl"
PLANTED = [
    HUGGING_FACE,
    GOOGLE,
    KEY,
    WEB_TOKEN,
    "ghp_" + "a1B2" * 9,
    "github_pat_" + "a1B2" * 9,
    "glpat-" + "a1B2c3D4e5F6g7H8i9J0",
    "AIza" + "SyA12" * 7,
    "pul-" + "0123456789abcdef" * 2,
    "Authorization: Bearer " + "opaque.token-of_somebody",
    "https://me:" + "opaque-password@registry.example/simple",
]


def _secret_part(planted: str) -> str:
    """What must be gone: the second half, where a prefix may stay."""
    return planted[len(planted) // 2 :].strip()


@pytest.mark.parametrize("planted", PLANTED)
@pytest.mark.parametrize("around", ["{}", "token={}", 'x: "{}", y', "before {} after", "a/{}"])
def test_a_token_is_hidden_wherever_it_stands(planted: str, around: str) -> None:
    if planted.startswith(("Auth", "https")):
        assert planted.split(":")[-1].split()[-1].split("@")[0] not in Redaction().text(
            around.format(planted)
        )
    else:
        assert _secret_part(planted) not in Redaction().text(around.format(planted))


@pytest.mark.parametrize("planted", PLANTED[:4])
@pytest.mark.parametrize("before", ["", "a", "ab", "abc", '{"auths": {"host": {"password": "'])
def test_a_token_is_hidden_in_base64_at_any_offset(planted: str, before: str) -> None:
    whole = (before + planted + '"}}}').encode()
    for encoded in (
        base64.b64encode(whole).decode(),
        base64.urlsafe_b64encode(whole).decode(),
        base64.encodebytes(whole).decode(),
        f"/etc/{base64.b64encode(whole).decode()}",
    ):
        shown = Redaction().text(f"data: {encoded}")
        assert SECRET in shown
        assert _secret_part(encoded) not in shown


def test_a_key_is_hidden_when_it_is_cut_off_or_written_as_json() -> None:
    assert "MIIEvQ" not in Redaction().text(KEY[: len(KEY) // 2])
    assert "MIIEvQ" not in Redaction().text(json.dumps({"private_key": KEY}))


@pytest.mark.parametrize(
    "value",
    ["correct horse battery staple", 'quotes " and \\ and\nlines', "plain-passphrase", "ümläut-phrase"],
)
def test_a_known_secret_is_hidden_in_every_form(value: str) -> None:
    redaction = Redaction([value])
    encoded = base64.b64encode(value.encode("latin-1")).decode()
    for form in (value, json.dumps({"a": value}), f"x{value}y", encoded):
        shown = redaction.text(form)
        assert SECRET in shown
        assert value not in shown
        assert encoded not in shown


def test_a_short_secret_is_hidden_where_it_is_the_whole_value_and_hides_nothing_else() -> None:
    redaction = Redaction(["4"])
    assert redaction.tree({"pin": "4", "count": 4, "zone": "us-central1-4"}) == {
        "pin": SECRET,
        "count": SECRET,
        "zone": "us-central1-4",
    }


def test_what_the_engine_marks_as_secret_is_hidden() -> None:
    marked = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "value": '"opaque"'}
    assert Redaction().tree({"a": [marked]}) == {"a": [SECRET]}


@pytest.mark.parametrize(
    "inputs",
    [
        {"kind": "Secret", "data": {"token": "opaque"}},
        {"kind": "Secret", "stringData": {"token": "opaque"}},
        {"secretData": "opaque"},
        {"nodePool": {"privateKey": "opaque"}},
        {"kubeconfig": "opaque"},
        {"envs": [{"name": "HF_TOKEN", "value": "opaque"}]},
        {"env": [{"name": "DB_PASSWORD", "value": "opaque"}]},
    ],
)
def test_what_is_called_a_secret_is_hidden_whatever_it_looks_like(inputs: dict[str, Any]) -> None:
    assert "opaque" not in json.dumps(Redaction().tree(inputs))


def test_what_is_no_secret_stays() -> None:
    inputs = {
        "kind": "ConfigMap",
        "data": {"train.py": "import hf_transfer\nHF_HOME = '/models'\n"},
        "image": f"docker.io/vllm/vllm-openai@sha256:{'0123456789abcdef' * 4}",
        "runExecutionToken": "finetune-0a1b2c3d",
        "envs": [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf-token", "key": "token"}}}],
        "role": "roles/secretmanager.secretAccessor",
        "member": "serviceAccount:a4-ray-nodes@project.iam.gserviceaccount.com",
        "workers": 2,
        "autopilot": True,
    }
    assert Redaction(["correct horse battery"]).tree(inputs) == inputs


def test_secrets_of_the_environment_are_known_by_their_names() -> None:
    environment = {
        "PULUMI_CONFIG_PASSPHRASE": "one",
        "GITHUB_TOKEN": "two",
        "GOOGLE_OAUTH_ACCESS_TOKEN": "three",
        "PATH": "/bin",
        "TOKENIZERS_PARALLELISM": "false",
    }
    assert sorted(secret_variables(environment)) == ["one", "three", "two"]


def test_secrets_of_the_configuration_are_known_by_their_marks() -> None:
    report = {"a:hfToken": {"value": "opaque", "secret": True}, "gcp:region": {"value": "r", "secret": False}}
    assert secret_configuration(json.dumps(report)) == ["opaque"]


@pytest.mark.parametrize("report", ["opaque", "[]", '{"a": "opaque"}', '{"a": {"value": "opaque"}}'])
def test_a_configuration_that_cannot_be_read_is_not_repeated(report: str) -> None:
    with pytest.raises(ValueError) as raised:
        secret_configuration(report)
    assert "opaque" not in str(raised.value)
