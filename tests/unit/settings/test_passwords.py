"""No password of an address is in a configuration, and the environment has it for who connects."""

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError
from sage_cli.settings.passwords import (
    SECRET_VARIABLE,
    secrets_of,
    taken,
    without_passwords,
    word_without_passwords,
)


@pytest.fixture(autouse=True)
def own_environment(monkeypatch):
    monkeypatch.setenv(SECRET_VARIABLE, "")


@pytest.mark.parametrize(("typed", "kept"), [
    ("postgresql+psycopg://ann:s3cr:e@t@h:5/x", "postgresql+psycopg://ann@h:5/x"),
    ("http://ann:s3cret@[::1]:80/v1", "http://ann@[::1]:80/v1"),
    ("http://:s3cret@h", "http://@h"),
    ("http://ann:123@h", "http://ann@h"),
    ("postgresql://h/x?user=ann&password=s3cret&a=b", "postgresql://h/x?user=ann&a=b"),
    ('["http://a:s3cret@h1","http://b:s3cret@h2:8/v1"]', '["http://a@h1","http://b@h2:8/v1"]'),
    ("--set=sampling.server=http://a:my s3cret@h/x", "--set=sampling.server=http://a@h/x"),
    ("[http://h:80, http://a:1,2@h]", "[http://h:80, http://a@h]"),
    # nothing secret, and left as it is
    ("http://h:8000/runs/x@40", "http://h:8000/runs/x@40"),
])  # fmt: skip
def test_passwords_are_taken_out_of_words(typed, kept):
    assert word_without_passwords(typed) == kept


@pytest.mark.parametrize(("typed", "kept"), [
    ("http://ann:s3c@ret@h/x says no to b@c", "http://ann@h/x says no to b@c"),
    ("http://h/v1?api_key=s3cret: refused", "http://h/v1? refused"),
    ("http://h/v1?a=b&Access-Token=s3cret refused", "http://h/v1?a=b& refused"),
    # nothing secret, and left as it is
    ("http://h:8000 says no to ann@h", "http://h:8000 says no to ann@h"),
    ("http://h: refused, see x@40", "http://h: refused, see x@40"),
    ("rl-dapo@40", "rl-dapo@40"),
    ("a: b@c", "a: b@c"),
])  # fmt: skip
def test_passwords_are_taken_out_of_messages(typed, kept):
    assert without_passwords(typed) == kept


def test_a_configuration_has_none_wherever_it_was_said(tmp_path):
    (tmp_path / "own.yaml").write_text("sampling: {servers: ['http://ann:s3cret%40@a:1/v1']}")
    sets = ["rollout.vllm.server_url=http://eve:s3cret3@c:8", "rollout.vllm.mode=server"]
    loaded = load(["tiny", str(tmp_path / "own.yaml")], sets=sets)
    assert "s3cret" not in json.dumps(loaded.config.model_dump(mode="json"))
    assert loaded.config.sampling.servers == ("http://ann@a:1/v1",)
    assert secrets_of("http://ann@a:1/v1") == {"password": "s3cret@"}
    assert secrets_of("http://eve@c:8") == {"password": "s3cret3"}
    assert secrets_of("http://eve@elsewhere:8") == {}
    # processes that this one starts have them too
    assert "s3cret3" in os.environ[SECRET_VARIABLE]


def test_a_secret_is_said_by_the_environment_and_shown_nowhere():
    for name in ("sampling.vllm.hf_token", "sampling.options.api_key"):
        with pytest.raises(ConfigurationError, match="has the name of a secret") as refused:
            load(sets=["sampling.backend=server", f"{name}=s3cret"])
        assert "s3cret" not in f"{refused.value.cause} {refused.value.next_step}"
    load(["tiny"], {"guide": {"name": "token"}})  # a guide, and no secret
    os.environ[SECRET_VARIABLE] = '{"http://ann@h": "s3cret"}'
    assert secrets_of("http://ann@h") == {"password": "s3cret"}
    os.environ[SECRET_VARIABLE] = "[1]"
    with pytest.raises(ConfigurationError, match="is not a JSON object"):
        secrets_of("http://ann@h")


NAMES = st.text("abcxyz019.-", min_size=1, max_size=8)
PASSWORDS = st.text(
    st.characters(codec="ascii", exclude_characters="'\"/?#\r\n"), min_size=1
).filter(lambda text: text.strip() == text and "://" not in text and not text.isdigit())


@given(user=NAMES, password=PASSWORDS, host=NAMES, port=st.integers(1, 65535))
def test_any_password_that_may_stand_in_an_address_is_taken(user, password, host, port):
    os.environ[SECRET_VARIABLE] = ""
    typed = f"postgresql://{user}:{password}@{host}:{port}/x"
    address = f"postgresql://{user}@{host}:{port}/x"
    assert taken(typed) == word_without_passwords(typed) == address
    assert taken({"a": [typed]}) == {"a": [address]}
    assert "password" in secrets_of(address)
