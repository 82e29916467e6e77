"""A password in an address is an error, and the environment has it for who connects."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError
from sage_cli.settings.passwords import (
    VARIABLE,
    password_of,
    require_no_secrets,
    without_passwords,
    word_without_passwords,
)


@pytest.fixture(autouse=True)
def own_environment(monkeypatch):
    monkeypatch.setenv(VARIABLE, "")


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
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
    ],
)
def test_passwords_are_taken_out_of_words(typed, kept):
    assert word_without_passwords(typed) == kept


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("http://ann:s3c@ret@h/x says no to b@c", "http://ann@h/x says no to b@c"),
        ("http://h/v1?api_key=s3cret: refused", "http://h/v1? refused"),
        ("http://h/v1?a=b&Access-Token=s3cret refused", "http://h/v1?a=b& refused"),
        # nothing secret, and left as it is
        ("http://h:8000 says no to ann@h", "http://h:8000 says no to ann@h"),
        ("http://h: refused, see x@40", "http://h: refused, see x@40"),
        ("rl-dapo@40", "rl-dapo@40"),
        ("a: b@c", "a: b@c"),
    ],
)
def test_passwords_are_taken_out_of_messages(typed, kept):
    assert without_passwords(typed) == kept


def refused(*presets, sets=()):
    with pytest.raises(ConfigurationError) as refusal:
        load(["tiny", *presets], sets=sets)
    assert "s3cret" not in f"{refusal.value.cause} {refusal.value.next_step}"
    return refusal.value


def test_an_address_with_a_password_is_an_error_wherever_it_is_said(tmp_path):
    (tmp_path / "own.yaml").write_text("sampling: {servers: ['http://ann:s3cret%40@a:1/v1']}")
    error = refused(str(tmp_path / "own.yaml"))
    assert "http://ann@a:1/v1 was given with a password" in error.cause
    assert """SAGE_PASSWORDS='{"http://ann@a:1/v1": "PASSWORD"}'""" in error.next_step
    error = refused(sets=["rollout.vllm.server_url=http://eve:s3cret3@c:8"])
    assert "http://eve@c:8 was given with a password" in error.cause
    error = refused(sets=['sampling.servers=["http://h/v1?api_key=s3cret"]'])
    assert "http://h/v1 was given with a key" in error.cause
    assert "SAGE_SERVER_API_KEY" in error.next_step
    loaded = load(["tiny"], sets=['sampling.servers=["http://ann@a:1/v1"]'])
    assert loaded.config.sampling.servers == ("http://ann@a:1/v1",)


def test_a_secret_is_said_by_the_environment_and_shown_nowhere():
    for name in ("sampling.vllm.hf_token", "sampling.options.api_key"):
        with pytest.raises(ConfigurationError, match="has the name of a secret") as refused:
            load(sets=["sampling.backend=server", f"{name}=s3cret"])
        assert "s3cret" not in f"{refused.value.cause} {refused.value.next_step}"
    load(["tiny"], {"guide": {"name": "token"}})  # a guide, and no secret
    os.environ[VARIABLE] = '{"http://ann@h": "s3cret"}'
    assert password_of("http://ann@h") == "s3cret"
    assert password_of("http://eve@h") is None
    os.environ[VARIABLE] = "[1]"
    with pytest.raises(ConfigurationError, match="is not a JSON object"):
        password_of("http://ann@h")


NAMES = st.text("abcxyz019.-", min_size=1, max_size=8)
PASSWORDS = st.text(
    st.characters(codec="ascii", exclude_characters="'\"/?#\r\n"), min_size=1
).filter(lambda text: text.strip() == text and "://" not in text and not text.isdigit())


@given(user=NAMES, password=PASSWORDS, host=NAMES, port=st.integers(1, 65535))
def test_any_password_that_may_stand_in_an_address_is_refused(user, password, host, port):
    typed = f"postgresql://{user}:{password}@{host}:{port}/x"
    address = f"postgresql://{user}@{host}:{port}/x"
    assert word_without_passwords(typed) == address
    require_no_secrets({"a": [address]})
    with pytest.raises(ConfigurationError) as refusal:
        require_no_secrets({"a": [typed]})
    assert refusal.value.cause.startswith(f"the address {address} was given with a")
