"""No message says a password."""

import sys
from importlib.util import find_spec
from urllib.parse import quote

import pytest

from relational_transformer import cli
from relational_transformer.passwords import hide_passwords
from relational_transformer.tuning import open_storage
from relational_transformer.tuning.storages import databases

SECRET = "hunter2"
ODD = "hün/t@r 2:?&%"
SECRETS = [SECRET, quote(ODD, safe=""), quote("two words"), "two words", "a%40b%2Fc", "un@encoded/one", "{braces}"]
SECRETS += ["a&escaped"]


@pytest.fixture(autouse=True)
def one_attempt(monkeypatch):
    monkeypatch.setattr(databases, "ATTEMPTS", 1)


ADDRESSES = [
    "foo://me:{}@host/name",
    "mysql+mysqldb://me:{}@host/name",
    "postgresql+nodriver://me:{}@127.0.0.1:1/name",
    "postgresql+psycopg://me:{}@127.0.0.1:1/name",
    "postgresql+psycopg://127.0.0.1:1/name?password={}",
    "postgresql+psycopg://127.0.0.1:1/name?user=me&sslpassword={}&nothing=1",
    "postgresql+psycopg://me:{}@127.0.0.1:port/name",
    "postgresql+psycopg://:{}@127.0.0.1:1/name",
    "sqlite://me:{}@/name",
    "sqlite:////proc/none/name?password={}",
]


@pytest.mark.parametrize("writing", [True, False])
@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("address", ADDRESSES)
def test_no_address_that_fails_tells_its_password(address: str, secret: str, writing: bool):
    with pytest.raises(ValueError) as error:  # noqa: PT011, what it says is the driver's
        open_storage(address.format(secret), writing=writing)
    for way in (secret, ODD, "two words", "a@b/c", "un@encoded/one", "encoded/one", "braces", "escaped"):
        assert way not in str(error.value)
    assert "\n" not in str(error.value)
    assert error.value.__cause__ is None
    assert error.value.__suppress_context__


def test_the_command_tells_no_password_either(capsys):
    for flags in ([], ["--show"], ["--winner"]):
        status = cli.main(["tune", "mpnn", "--storage", f"mysql+mysqldb://me:{SECRET}@host/name", *flags])
        output = capsys.readouterr()
        assert status == 2
        assert "mysql+mysqldb://me:***@host/name" in output.err
        assert SECRET not in output.out + output.err


@pytest.mark.skipif(find_spec("psycopg") is None, reason="needs psycopg")
def test_a_driver_that_quotes_the_password_is_silenced(monkeypatch):
    import psycopg

    def connect(*arguments, **options):
        raise psycopg.OperationalError(f'missing "=" after "{ODD}" in connection info, password={options["password"]}')

    monkeypatch.setattr(sys.modules["psycopg"], "connect", connect)
    monkeypatch.setattr(psycopg.Connection, "connect", connect)
    with pytest.raises(ValueError, match="no database can be used at") as error:
        open_storage(f"postgresql+psycopg://me:{quote(ODD, safe='')}@host/name")
    assert ODD not in str(error.value)
    assert "***" in str(error.value)


@pytest.mark.parametrize(
    "text",
    ["no host in sqlite:///tuning.db", "runs/tuning.journal is empty", "postgresql://me@host/name has no table"],
)
def test_what_is_no_password_is_left_as_it_is(text: str):
    assert hide_passwords(text) == text


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("a://me:x@h/n and b://you:y@h/m", "a://me:***@h/n and b://you:***@h/m"),
        ("host=h password=hunter2 user=me", "host=h password=*** user=me"),
        ("host=h password='two words' user=me", "host=h password=*** user=me"),
        ("x://h/n?passwd=1&PWD=2&pass=3;4", "x://h/n?passwd=***&PWD=***&pass=***"),
        ("x:///?odbc=Driver%3Da%3BPWD%3Db%3BServer%3Dc", "x:///?odbc=Driver%3Da%3BPWD%3D***%3BServer%3Dc"),
        ("at 'x://h/n?password=a&b;c&user=me': no", "at 'x://h/n?password=***&user=me': no"),
    ],
)
def test_all_passwords_of_a_text_are_hidden(text: str, hidden: str):
    assert hide_passwords(text) == hidden
