"""Planted secrets never come out."""

import base64
import json
from typing import Any

import pytest
from detect_secrets.core.scan import scan_line
from detect_secrets.settings import default_settings

from engine.secrets import SECRET
from operations.previews.redaction import Redaction

# Put together here, so that no scanner of this repository takes them for somebody's.
KEY = "-----BEGIN " + "PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0\nAQEFAASC\n-----END " + "PRIVATE KEY-----\n"
TOKENS = [
    "hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYz01234567",
    "ya29." + "a0AfH6SMBx-planted_in-a.test" + "x" * 60,
    KEY,
    "eyJ" + "hbGciOiJSUzI1NiJ9.eyJ" + "zdWIiOiJwbGFudGVkIn0.c2lnbmF0dXJl",
    "ghp_" + "a1B2" * 9,
    "github_pat_" + "a1B2" * 9,
    "glpat-" + "a1B2c3D4e5F6g7H8i9J0",
    "AIza" + "SyA12" * 7,
    "pul-" + "0123456789abcdef" * 2,
    "sk-" + "proj-" + "a1B2" * 6,
    "AKIA" + "IOSFODNN7EXAMPLE",
    "npm_" + "a1B2c3" * 6,
    "wandb_v1_" + "a1B2c3D4e5_F6" * 5,
    "xox" + "b-1234567890-" + "a1B2c3D4" * 3,
    "xapp" + "-1-" + "A1B2C3D4-" * 4,
    "GOOG" + "1E" + "A1B2C3D4" * 6,
    "abc" + "8Q~" + "a1B2c3~-" * 4,
    "pypi-" + "AgEIcHlwaS5vcmc" + "a1B2c3D4" * 8,
    "dckr_pat_" + "a1B2c3D4-_" * 3,
    "sk" + "_live_" + "a1B2c3D4" * 4,
    "nvapi" + "-" + "a1B2c3D4" * 8,
    "dapi" + "01ab" * 8,
    "hvs" + "." + "a1B2c3D4" * 8,
    "r8" + "_" + "a1B2c3D4" * 5,
    "gsk" + "_" + "a1B2c3D4" * 7,
    "glsa" + "_" + "a1B2c3D4" * 4 + "_01abcdef",
    "glc" + "_" + "a1B2c3D4" * 8,
    "ATATT3" + "xFfGF0" + "a1B2c3D4" * 8,
    "sntrys" + "_" + "a1B2c3D4" * 8,
]
# What must be gone: of a token the second half, where a prefix may stay.
PLANTED = [
    *((token, token[len(token) // 2 :].strip()) for token in TOKENS),
    ("Authorization: Bearer " + "opaque.token-of_somebody", "opaque.token-of_somebody"),
    ("Authorization: Basic " + "b3BhcXVlOnBhc3N3b3Jk", "b3BhcXVl"),
    ('"Authorization": "Basic ' + 'b3BhcXVlOnBhc3N3b3Jk"', "b3BhcXVl"),
    ("authorization: token " + "opaque-token-of-somebody", "opaque-token"),
    ("https://api.example/v1?access_token=" + "opaque-token-of&page=2", "opaque-token"),
    ("https://storage.example/b/o?X-Goog-Signature=" + "0a1b2c3d" * 2, "0a1b2c3d"),
    (
        "https://bucket.example/o?X-Amz-Credential=opaque%2Fscope&X-Amz-Signature=" + "0a1b2c3d" * 2,
        "0a1b2c3d",
    ),
    ("https://blob.example/o?sv=2024&sig=" + "opaque%2Bsignature%3D", "opaque%2B"),
    ("WANDB_API_KEY=" + "01ab" * 10, "01ab01ab01ab"),
    ("https://me:" + "opaque-password@registry.example/simple", "opaque-password"),
    ("https://hooks.slack.com/services/" + "T0A1B2C3/B0A1B2C3/" + "opaque0123", "opaque0123"),
    ("https://discord.com/api/webhooks/" + "123456789012345678/" + "a1B2c3D4" * 8, "a1B2c3D4a1B2"),
    ("https://team.webhook.office.com/webhookb2/" + "0a1b2c3d-" * 4 + "@0a1b/opaque0123", "opaque0123"),
    ("aws_secret_access_key = " + "opaqueaB1/" * 4, "opaqueaB1/opaqueaB1"),
    ('AWS_SECRET_ACCESS_KEY="' + "opaqueaB1/" * 4 + '"', "opaqueaB1/opaqueaB1"),
    ("secret: " + "opaqueaB1+" * 4, "opaqueaB1+opaqueaB1"),
    ("AccountName=a;AccountKey=" + "opaqueA1" * 10 + "opaqueA=;x=y", "opaqueA1opaqueA1"),
    ("Endpoint=sb://a/;SharedAccessKey=" + "opaqueA1" * 5 + "opaqueA=", "opaqueA1opaqueA1"),
    ('{"auths": {"ghcr.io": {"auth": "' + "b3BhcXVlOnBhc3N3b3Jk" + '"}}}', "b3BhcXVl"),
    ("password: " + "opaque", "opaque"),
    ("the password = '" + "opaque'", "opaque"),
    ("POSTGRES_PASSWORD=" + "opaque", "opaque"),
    ("token: " + "opaque-0", "opaque-0"),
    ('{"accessToken": "' + 'opaque-text-of-somebody"}', "opaque-text"),
    ("refresh_token=" + "opaque-0", "opaque-0"),
]


@pytest.mark.parametrize(("planted", "part"), PLANTED)
@pytest.mark.parametrize("around", ["{}", "token={}", 'x: "{}", y', "before {} after", "a/{}"])
def test_a_token_is_hidden_wherever_it_stands(planted: str, part: str, around: str) -> None:
    assert part not in Redaction().text(around.format(planted))


@pytest.mark.parametrize("planted", TOKENS[:4])
@pytest.mark.parametrize("before", ["", "a", "ab", "abc", '{"auths": {"host": {"password": "'])
def test_a_token_is_hidden_in_base64_at_any_offset(planted: str, before: str) -> None:
    whole = (before + planted + '"}}}').encode()
    encoded = base64.b64encode(whole).decode()
    for form in (
        encoded,
        base64.urlsafe_b64encode(whole).decode(),
        base64.encodebytes(whole).decode(),
        f"/etc/{encoded}",
    ):
        shown = Redaction().text(f"data: {form}")
        assert SECRET in shown
        assert form[len(form) // 2 :].strip() not in shown


@pytest.mark.parametrize("token", [token for token in TOKENS if "\n" not in token])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\n    ", "\\\n\t"])
def test_a_token_that_a_line_end_breaks_is_hidden_with_what_is_left_of_it(token: str, line_end: str) -> None:
    for place in (6, len(token) // 2, len(token) - 6):
        broken = token[:place] + line_end + token[place:]
        shown = Redaction().text(f"before\n{broken} after\nthe end")
        assert shown == f"before\n{SECRET} after\nthe end"


@pytest.mark.parametrize(
    ("before", "secret", "after"),
    [
        ("Authorization: Bearer ", "q7" * 20, " after"),
        ("authorization: basic ", "dXNlcjpwYXNzd29yZDEyMzQ1Njc4", " after"),
        ("aws_secret_access_key = ", "k9/" * 13 + "A", " after"),
        ("https://", "user:pa55word9long", "@host/path after"),
    ],
)
@pytest.mark.parametrize("line_end", ["\n", "\r\n    ", "\\\n\t"])
def test_a_secret_known_by_its_context_is_hidden_behind_a_line_end_too(
    before: str, secret: str, after: str, line_end: str
) -> None:
    for place in (6, len(secret) // 2, len(secret) - 4):
        shown = Redaction().text(f"{before}{secret[:place]}{line_end}{secret[place:]}{after}\nthe end")
        assert shown.endswith(f"{SECRET}{after}\nthe end")
        assert secret[:place] not in shown


def test_the_header_below_an_authorisation_stays() -> None:
    text = f"Authorization: Bearer {'q7' * 20}\nHost: example.com"
    assert Redaction().text(text) == f"Authorization: Bearer {SECRET}\nHost: example.com"


def test_no_secret_hides_by_what_the_one_below_it_is_known() -> None:
    for planted in (PLANTED, PLANTED[::-1]):
        shown = Redaction().text("\n".join(text for text, _ in planted))
        assert not [part for _, part in planted if part in shown]


def test_a_known_secret_that_a_line_end_breaks_is_hidden() -> None:
    shown = Redaction(["correct horse battery"]).text("it is: correct hor\n  se battery staple")
    assert shown == f"it is: {SECRET} staple"


@pytest.mark.parametrize("planted", TOKENS[:4])
@pytest.mark.parametrize("times", [2, 3])
@pytest.mark.parametrize("around", [("", ""), ('{"config": "', '"}')])
def test_a_token_is_hidden_in_base64_of_base64(planted: str, times: int, around: tuple[str, str]) -> None:
    form = planted
    for _ in range(times):
        form = base64.b64encode(form.join(around).encode()).decode()
    shown = Redaction().text(f"data: {form}")
    assert SECRET in shown and form[len(form) // 2 :] not in shown


def test_what_looks_through_commits_finds_nothing_in_what_is_shown() -> None:
    """A second opinion: the scanner knows other services, and other ways of writing."""
    text = "\n".join(planted for planted, _ in PLANTED)
    with default_settings():
        seen, left = (
            {secret.type for line in lines.splitlines() for secret in scan_line(line)}
            for lines in (text, Redaction().text(text))
        )
    assert len(seen) > 8
    # detect-secrets suspects every long word.
    assert {kind for kind in left if "High Entropy" not in kind} == set()


def test_a_key_is_hidden_when_it_is_cut_off_or_written_as_json() -> None:
    assert "MIIEvQ" not in Redaction().text(KEY[: len(KEY) // 2])
    assert "MIIEvQ" not in Redaction().text(json.dumps({"private_key": KEY}))


@pytest.mark.parametrize(
    "value",
    ["correct horse battery staple", 'quotes " and \\ and\nlines', "plain-passphrase", "ümläut-phrase"],
)
def test_a_known_secret_is_hidden_in_every_form(value: str) -> None:
    encoded = base64.b64encode(value.encode("latin-1")).decode()
    for form in (value, json.dumps({"a": value}), f"x{value}y", encoded):
        shown = Redaction([value]).text(form)
        assert SECRET in shown
        assert value not in shown
        assert encoded not in shown


def test_secrets_of_the_environment_are_known_by_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PULUMI_CONFIG_PASSPHRASE", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "DOCKER_AUTH_CONFIG"):
        monkeypatch.setenv(name, "opaque-text")
        assert Redaction().text("an opaque-text") == f"an {SECRET}"
        monkeypatch.delenv(name)
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "opaque-text")
    assert Redaction().text("an opaque-text") == "an opaque-text"


def test_a_short_secret_is_hidden_where_it_is_the_whole_value_and_hides_nothing_else() -> None:
    shown = Redaction(["4"]).tree({"pin": "4", "count": 4, "zone": "us-central1-4"})
    assert shown == {"pin": SECRET, "count": SECRET, "zone": "us-central1-4"}


@pytest.mark.parametrize(
    "inputs",
    [
        {"a": [{"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "value": "opaque"}]},
        {"kind": "Secret", "data": {"token": "opaque"}},
        {"kind": "Secret", "stringData": {"token": "opaque"}},
        {"secretData": "opaque"},
        {"nodePool": {"privateKey": "opaque"}},
        {"kubeconfig": "opaque"},
        {"envs": [{"name": "HF_TOKEN", "value": "opaque"}]},
        {"env": [{"name": "DB_PASSWORD", "value": "opaque"}]},
        {"hmacSecret": "opaque", "clientKey": "opaque", "credentials": "opaque", "token": "opaque"},
        {"auths": {"ghcr.io": {"auth": "opaque"}}},
        {".dockerconfigjson": "opaque"},
        {"secret_access_key": "opaque", "accountKey": "opaque", "idToken": "opaque"},
    ],
)
def test_what_is_marked_or_called_a_secret_is_hidden_whatever_it_looks_like(inputs: dict[str, Any]) -> None:
    assert "opaque" not in json.dumps(Redaction().tree(inputs))


def test_what_is_no_secret_stays() -> None:
    inputs = {
        "kind": "ConfigMap",
        "data": {"train.py": "import hf_transfer\nHF_HOME = '/models'\n"},
        "image": f"docker.io/vllm/vllm-openai@sha256:{'0123456789abcdef' * 4}",
        "runExecutionToken": "finetune-0a1b2c3d",
        "disk": "persistent-disk-of-the-first-serving-node",
        "hint": "basic authentication is off",
        "said": [
            "unexpected token: identifier",
            "hfToken: missing: a Hugging Face read token; `pulumi config set --secret hfToken` asks for it",
            "error: incorrect passphrase, please set PULUMI_CONFIG_PASSPHRASE",
            '{"secretKeyRef": {"name": "hf-token-0a1b2c3", "key": "token"}, "tokenExpirationSeconds": 3600}',
            "secret: projects/p/secrets/dev-hugging-face-token/versions/1",
            "the import of hf_transfer\nwhich_is_a_module of the Hub",
            "a disk\n- persistent-disk-of-the-first-serving-node-0",
        ],
        "volume": {"serviceAccountToken": {"path": "token-0a1b2c3d"}, "secretName": "hf-token-0a1b2c3d"},
        "envs": [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf-token", "key": "token"}}}],
        "role": "roles/secretmanager.secretAccessor",
        "member": "serviceAccount:a4-ray-nodes@project.iam.gserviceaccount.com",
        "workers": 2,
        "autopilot": True,
    }
    assert Redaction(["correct horse battery"]).tree(inputs) == inputs
