"""Parses the address of a daemon: a URL or a socket path. Reads no file.

The rules are those of the program: nothing passes that ssh, or a shell started by ssh, could
misinterpret.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import NamedTuple, NoReturn

from .errors import Invalid

HTTPS_PORT = 9411
FORMS = "ssh://[USER@]HOST[:PORT], https://HOST[:PORT], unix:///PATH, or a name in hosts.toml"
_FORM_OF = {"ssh": "ssh://[USER@]HOST[:PORT][/PATH]", "https": "https://HOST[:PORT]"}

_LONGEST_PATH = 107  # bytes, the kernel's limit for a Unix socket
# The first character is not '-', which would make it an option of ssh.
_HOST = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._-]{0,254}\Z")
_SIX = re.compile(r"[A-Za-z0-9:.]{1,255}\Z")
# "alice", "alice@corp" or "CORP\alice". A shell drops a backslash before a letter; at the end it
# would change what follows.
_USER = re.compile(r"(?:[A-Za-z0-9._][A-Za-z0-9._-]{0,254}\\)?"
                   r"[A-Za-z0-9._+@][A-Za-z0-9._+@-]{0,254}\Z")
_PROGRAM = re.compile(r"(?:/~)?/[A-Za-z0-9._+@/-]{0,1020}[A-Za-z0-9._+@-]\Z")
_PORT = re.compile(r"[0-9]{1,5}\Z")
_PIN = re.compile(r"sha256//[A-Za-z0-9+/]{43}=\Z")


class Endpoint(NamedTuple):
    """The address of a daemon. `kind` is "unix", "tcp", "https" or "ssh"; unused fields are "" or
    0."""

    kind: str
    path: str = ""  # of a Unix socket, or of the program on the other side of ssh
    host: str = ""
    port: int = 0
    user: str = ""
    pin: str = ""
    token: str = ""
    ca_file: str = ""  # trusted certificates, besides those of the system

    @property
    def name(self) -> str:
        """The address as text, without the token."""
        if self.kind == "unix":
            return self.path
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = f":{self.port}" if self.port else ""
        user = f"{self.user}@" if self.user else ""
        scheme = {"tcp": "http", "https": "https", "ssh": "ssh"}[self.kind]
        return f"{scheme}://{user}{host}{port}{self.path}"

    @property
    def host_field(self) -> str:
        """The Host header of a request."""
        if self.kind in ("unix", "ssh"):
            return "localhost"
        return self.name.split("//", 1)[1]

    @property
    def is_elsewhere(self) -> bool:
        """Whether it may be on another machine, where the daemon does not see this process."""
        return self.kind != "unix"


def parse(address: str) -> Endpoint:
    """Parses a URL, a socket path, or ADDRESS:PORT as in `gpuyard serve --listen`."""
    if address.startswith("ssh://"):
        return parse_ssh(address)
    if address.startswith("https://"):
        return parse_https(address)
    if address.startswith("unix:"):
        return _parse_unix(address, re.sub(r"^unix:(//)?", "", address))
    if address.startswith("http://"):
        host, port = _split_host(address, address[len("http://"):].rstrip("/"))
        return Endpoint("tcp", host=host, port=port or _refuse(address, "it has no port"))
    if "/" in address:
        return _parse_unix(address, address)
    host, port = _split_host(address, address)
    return Endpoint("tcp", host=host, port=port or _refuse(address, f"expected {FORMS}"))


def parse_ssh(url: str) -> Endpoint:
    """ssh://[user@]host[:port][/path/of/gpuyard]; "/~/" is the home directory on that host."""
    rest, slash, path = url[len("ssh://"):].partition("/")
    program = slash + path if path else ""
    user = ""
    if "@" in rest:
        user, _, rest = rest.rpartition("@")
        if ":" in user:
            _refuse(url, "it must not contain a password; set up a key with `ssh-copy-id`")
        if not _USER.match(user):
            _refuse(url, "the user may contain letters, digits, '.', '_', '+', '-' and '@', after "
                         "an optional domain and backslash")
    host, port = _split_host(url, rest)
    if program and not _PROGRAM.match(program):
        _refuse(url, "the path must lead to the gpuyard program and may contain letters, digits, "
                     "'.', '_', '+', '-' and '@'; /~/ at its start is the home directory")
    return Endpoint("ssh", path=program, host=host, port=port, user=user)


def parse_https(url: str) -> Endpoint:
    """https://host[:port]"""
    rest = url[len("https://"):]
    if rest.endswith("/"):
        rest = rest[:-1]
    if "@" in rest:
        _refuse(url, "it must not contain a token; use GPUYARD_TOKEN")
    host, port = _split_host(url, rest)
    # One spelling for each host, because its pin and its token are found by name.
    host = host.lower()
    if host.endswith("."):
        host = host[:-1]
    if not host or host.endswith("."):
        _refuse(url, "the host must not have an empty part")
    return Endpoint("https", host=host, port=port or HTTPS_PORT)


def is_host_name(text: str) -> bool:
    """Whether it may be a name in hosts.toml."""
    return bool(_HOST.match(text))


def is_pin(text: str) -> bool:
    """Whether it is the SHA-256 of a public key as curl and `gpuyard tls show` write it."""
    if not _PIN.match(text):
        return False
    try:
        return len(base64.b64decode(text[len("sha256//"):], validate=True)) == 32
    except binascii.Error:
        return False


def _parse_unix(address: str, path: str) -> Endpoint:
    if not path.startswith("/") and address.startswith("unix:"):
        raise Invalid("expected an absolute path, as in unix:///run/gpuyard/gpuyard.sock; "
                      f'got "{address}"')
    size = len(path.encode("utf-8", "surrogateescape"))
    if "\0" in path or size > _LONGEST_PATH:
        raise Invalid(f'expected a socket path of 1 to {_LONGEST_PATH} bytes; got "{path}", {size} bytes')
    return Endpoint("unix", path=path)


def _split_host(url: str, text: str) -> tuple[str, int]:
    """Host and port; port 0: none given."""
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        good = bool(bracket) and bool(_SIX.match(host))
    else:
        host, colon, port = text.partition(":")
        rest = colon + port
        good = bool(_HOST.match(host))
    if not good:
        _refuse(url, "the host may contain letters, digits, '.', '_' and '-' (not first), or be an "
                     "IPv6 address in brackets")
    if not rest:
        return host, 0
    if not rest.startswith(":") or not _PORT.match(rest[1:]) or not 0 < int(rest[1:]) < 65536:
        _refuse(url, "only a port from 1 to 65535 may follow the host")
    return host, int(rest[1:])


def _refuse(address: str, why: str) -> NoReturn:
    form = _FORM_OF.get(address.partition("://")[0], "the address of a daemon")
    raise Invalid(f'expected {form}; got "{address}": {why}')
