"""The selection of a daemon, and what it refuses: hosts.toml, tokens, the environment."""

import os
import socket

import pytest

from gpuyard import endpoint
from gpuyard.daemon_address import Environment, _checksum, select_daemon
from gpuyard.errors import Denied, Error, Invalid, NotFound, Unavailable
from gpuyard.hosts_file import _parse_host, parse_subset, read_hosts
from gpuyard.tls_pins import context_for

PIN = "sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="


def token_of(letter):
    """One whose last letters fit the others."""
    text = "gpy_" + letter * 51
    return text + _checksum(text)


TOKEN = token_of("a")


def env(tmp_path, uid=1000, **variables):
    return Environment(uid, {"XDG_CONFIG_HOME": str(tmp_path), **variables})


def write_hosts(tmp_path, text):
    file = tmp_path / "gpuyard" / "hosts.toml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return str(file)


@pytest.mark.parametrize("url, name", [
    ("ssh://alice@lab.example.org:2222/home/alice/gpuyard", None), ("ssh://lab", None),
    ("ssh://[::1]:22", None), ("ssh://lab/", "ssh://lab"), ("ssh://lab/~/bin/gpuyard", None),
    ("ssh://user@corp.example.org@lab", None), ("ssh://CORP\\alice@lab", None),
    ("https://dgx1", "https://dgx1:9411"), ("https://dgx1:1/", "https://dgx1:1"),
    ("unix:///run/x.sock", "/run/x.sock"), ("/run/x.sock", "/run/x.sock"),
    ("127.0.0.1:9410", "http://127.0.0.1:9410"), ("http://[::1]:9410/", "http://[::1]:9410"),
])
def test_valid_host_url_has_canonical_name(url, name):
    assert endpoint.parse(url).name == (name or url)


# ssh or a shell could take part of such a URL for an option or a command.
@pytest.mark.parametrize("url", [
    "ssh://", "ssh://-oProxyCommand=x", "ssh://a:b@lab", "ssh://lab:0", "ssh://lab:99999",
    "ssh://lab/a b", "ssh://lab/x/", "ssh://lab;reboot", "ssh://a@-lab", "ssh://-x@lab",
    "ssh://lab/~", "ssh://lab/~bob/g", "ssh://lab/a/~/g", "ssh://CORP\\@lab", "ssh://A\\B\\c@lab",
    "ssh://CORP\\-l@lab", "ssh://lab\n", "ssh://[::1", "https://", "https://t@dgx1", "https://dgx1/x", "https://dgx1:x",
    "unix://x", "nothing", "http://dgx1", "/" + "x" * 108, "127.0.0.1:", "ssh://$(x)",
])
def test_ambiguous_host_url_is_refused(url):
    with pytest.raises(Invalid):
        endpoint.parse(url)


def test_environment_selects_daemon_and_two_variables_are_refused(tmp_path):
    assert select_daemon("", "", env(tmp_path, GPUYARD_SOCKET="/a.sock")).path == "/a.sock"
    assert select_daemon("", "", env(tmp_path, GPUYARD_HOST="ssh://lab")).name == "ssh://lab"
    both = env(tmp_path, GPUYARD_HOST="ssh://lab", GPUYARD_SOCKET="/a.sock")
    with pytest.raises(Invalid, match="cannot be used with"):
        select_daemon("", "", both)
    assert select_daemon("ssh://lab2", "", both).name == "ssh://lab2"
    same = env(tmp_path, GPUYARD_HOST="unix:///a.sock", GPUYARD_SOCKET="/a.sock")
    assert select_daemon("", "", same).path == "/a.sock"


def test_host_name_resolves_through_hosts_toml(tmp_path):
    write_hosts(tmp_path, '[lab]\nurl = "ssh://alice@lab"\n'
                          f'[dgx1]\nurl = "https://dgx1"\npin = "{PIN}"\n')
    assert select_daemon("lab", "", env(tmp_path)).user == "alice"
    assert select_daemon("dgx1", "", env(tmp_path)).pin == PIN
    # A URL that the file has finds its pin, too.
    assert select_daemon("https://dgx1:9411", "", env(tmp_path)).pin == PIN
    # In upper case, and with the final dot of an absolute name.
    assert select_daemon("https://DGX1.", "", env(tmp_path)).pin == PIN
    with pytest.raises(NotFound, match="ssh://other"):
        select_daemon("other", "", env(tmp_path))
    with pytest.raises(Invalid):
        select_daemon("-x", "", env(tmp_path))


@pytest.mark.parametrize("text", [
    '[a]\nurl = "ssh://lab"\nport = 3\n', '[a]\npin = "x"\n', "[a]\nurl = 3\n",
    f'[a]\nurl = "ssh://lab"\npin = "{PIN}"\n', '[a]\nurl = "https://a"\npin = "sha256//x"\n',
    "[a\n", '[a]\nurl = "ssh://lab"\nurl = "ssh://lab"\n', '[a]\nurl = "x"\n[a]\nurl = "x"\n',
])
def test_invalid_hosts_file_is_refused_by_name(tmp_path, text):
    file = write_hosts(tmp_path, text)
    with pytest.raises(Invalid, match="hosts.toml"):
        read_hosts(file, 1000)
    with pytest.raises(Invalid, match="hosts.toml"):
        for name, section in parse_subset(text, file).items():
            _parse_host(name, section, file)


def test_a_hosts_file_has_a_limit(tmp_path):
    with pytest.raises(Invalid, match="larger than 65536 bytes"):
        read_hosts(write_hosts(tmp_path, "#" * 70_000), 1000)


# Python before 3.11 has no tomllib; a parser for a subset replaces it there.
def test_fallback_toml_parser_agrees_with_tomllib():
    text = ('# mine\n\n[lab]\nurl = "ssh://alice@lab"  # home\n[dgx1]\nurl = "https://dgx1:9411"\n'
            f"pin = '{PIN}'\ntoken_file = \"/home/a/x y.token\"\n")
    read = parse_subset(text, "hosts.toml")
    assert read == {"lab": {"url": "ssh://alice@lab"},
                    "dgx1": {"url": "https://dgx1:9411", "pin": PIN,
                             "token_file": "/home/a/x y.token"}}
    tomllib = pytest.importorskip("tomllib", reason="this Python has no tomllib to compare with")
    assert read == tomllib.loads(text)
    for line in ('url = """x"""', 'url = "a\\"b"', "url = [1]", "a.b = \"c\"", "[[x]]"):
        with pytest.raises(Invalid, match="hosts.toml:1: before Python 3.11"):
            parse_subset(line, "hosts.toml")


def test_root_refuses_hosts_file_writable_by_others(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root is told so")
    file = write_hosts(tmp_path, '[lab]\nurl = "ssh://lab"\n')
    assert read_hosts(file, 0)["lab"].url == "ssh://lab"
    os.chmod(file, 0o666)
    with pytest.raises(Invalid, match="chmod go-w"):
        read_hosts(file, 0)
    os.chmod(file, 0o644)
    os.chown(file, 1000, 0)
    with pytest.raises(Invalid, match="chown root:root"):
        read_hosts(file, 0)


@pytest.mark.parametrize("differs", ["", f'pin = "{PIN}"\ntoken_file = "/t"\n'])
def test_differing_entries_of_one_host_are_refused(tmp_path, differs):
    one = f'[dgx1]\nurl = "https://LAB"\npin = "{PIN}"\n[lab]\nurl = "https://lab.:9411"\n'
    write_hosts(tmp_path, one + differs)
    for host in ("dgx1", "lab", "https://Lab"):
        with pytest.raises(Invalid, match="dgx1 and lab are the same host, https://lab:9411"):
            select_daemon(host, "", env(tmp_path))
    assert select_daemon("https://another", "", env(tmp_path)).pin == ""
    write_hosts(tmp_path, one + f'pin = "{PIN}"\n')
    assert select_daemon("https://lab", "", env(tmp_path)).pin == PIN


def test_ca_file_in_hosts_toml_is_trusted(tmp_path):
    write_hosts(tmp_path, '[dgx1]\nurl = "https://dgx1"\nca_file = "~/ca.pem"\n')
    found = select_daemon("dgx1", "", env(tmp_path, HOME="/home/alice"))
    assert found.ca_file == "/home/alice/ca.pem"
    with pytest.raises(Invalid, match="contains no trusted certificates, although ca_file points to it"):
        context_for("", str(tmp_path / "none.pem"))


def test_a_token_comes_from_one_place(tmp_path):
    file = tmp_path / "t"
    file.write_text(TOKEN + "\n")
    file.chmod(0o600)
    other = tmp_path / "other"
    other.write_text(token_of("b"))
    other.chmod(0o600)
    write_hosts(tmp_path, f'[dgx1]\nurl = "https://dgx1"\ntoken_file = "{file}"\n')

    def token(token_file="", **variables):
        return select_daemon("dgx1", token_file, env(tmp_path, **variables)).token
    assert token() == TOKEN
    assert token(GPUYARD_TOKEN_FILE=str(other))[4] == "b"
    of_host = tmp_path / "dgx1.token"
    of_host.write_text(token_of("d"))
    of_host.chmod(0o600)
    assert token(GPUYARD_TOKEN_FILE=str(tmp_path / "{}.token"))[4] == "d"
    with pytest.raises(Invalid, match="GPUYARD_TOKEN_FILE: 'token' is not an absolute path"):
        token(GPUYARD_TOKEN_FILE="token")
    assert token(GPUYARD_TOKEN=token_of("c"))[4] == "c"
    assert token(str(other), GPUYARD_TOKEN=token_of("c"))[4] == "b"
    with pytest.raises(Invalid, match="cannot be used with"):
        token(GPUYARD_TOKEN=TOKEN, GPUYARD_TOKEN_FILE=str(file))
    with pytest.raises(NotFound):
        token(str(tmp_path / "none"))


def test_tilde_in_hosts_file_is_home_directory(tmp_path):
    file = tmp_path / "t"
    file.write_text(TOKEN)
    file.chmod(0o600)
    write_hosts(tmp_path, '[dgx1]\nurl = "https://dgx1"\ntoken_file = "~/t"\n')
    assert select_daemon("dgx1", "", env(tmp_path, HOME=str(tmp_path))).token == TOKEN
    with pytest.raises(Invalid, match="hosts.toml.*HOME is not set"):
        select_daemon("dgx1", "", env(tmp_path, HOME=""))
    write_hosts(tmp_path, '[dgx1]\nurl = "https://dgx1"\ntoken_file = "t"\n')
    with pytest.raises(Invalid, match="hosts.toml.*not an absolute path"):
        select_daemon("dgx1", "", env(tmp_path, HOME=str(tmp_path)))


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_token_file_readable_by_others_is_refused(tmp_path, mode):
    file = tmp_path / "t"
    file.write_text(TOKEN)
    file.chmod(mode)
    with pytest.raises(Denied, match="chmod 600"):
        select_daemon("https://dgx1", str(file), env(tmp_path))


@pytest.mark.parametrize("text", [
    "x", TOKEN + "a", TOKEN[:-1], TOKEN[:-1] + "~", TOKEN[:20] + "b" + TOKEN[21:],
    "gpy_" + "-" * 57, "x" * 5000, "gpy_" + "ä" * 57])
def test_malformed_token_is_refused_before_sending(tmp_path, text):
    file = tmp_path / "t"
    file.write_text(text)
    file.chmod(0o600)
    with pytest.raises(Error) as caught:
        select_daemon("https://dgx1", str(file), env(tmp_path))
    assert isinstance(caught.value, Invalid)


def test_socket_of_another_user_is_not_trusted(tmp_path):
    runtime = tmp_path / "gpuyard"
    runtime.mkdir()
    path = runtime / "gpuyard.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        mine = env(tmp_path, uid=os.geteuid() or 1000, XDG_RUNTIME_DIR=str(tmp_path))
        # Root's listener is believed by everybody.
        assert select_daemon("", "", mine).path == str(path)
        if os.geteuid() != 0:
            with pytest.raises(Unavailable):
                select_daemon("", "", mine._replace(uid=os.geteuid() + 1))
    with pytest.raises(Unavailable, match="gpuyard serve"):
        select_daemon("", "", mine)
