"""Where a daemon is, from what a user calls it: a URL or the path of a socket. Reads no file.

The rules are those of the program: nothing gets through that ssh, or a shell that ssh starts, could
take for something else.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import NamedTuple, NoReturn

from .errors import Invalid

HTTPS_PORT = 9411
FORMS = "ssh://[user@]host[:port], https://host[:port], unix:///path, or a name in hosts.toml"

_LONGEST_PATH = 107  # bytes that the kernel takes for the name of a Unix socket
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
    """One daemon. `kind` is "unix", "tcp", "https" or "ssh"; what it does not have is "" or 0."""

    kind: str
    path: str = ""  # of a Unix socket; of the program at the other end of ssh
    host: str = ""
    port: int = 0
    user: str = ""
    pin: str = ""
    token: str = ""
    ca_file: str = ""  # who signs its certificate, besides those the system trusts

    @property
    def name(self) -> str:
        """As people call it, without its token."""
        if self.kind == "unix":
            return self.path
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = f":{self.port}" if self.port else ""
        user = f"{self.user}@" if self.user else ""
        scheme = {"tcp": "http", "https": "https", "ssh": "ssh"}[self.kind]
        return f"{scheme}://{user}{host}{port}{self.path}"

    @property
    def host_field(self) -> str:
        """What stands in the Host field of a request."""
        if self.kind in ("unix", "ssh"):
            return "localhost"
        return self.name.split("//", 1)[1]

    @property
    def is_elsewhere(self) -> bool:
        """Whether it may be on another machine, so that its daemon does not see this process."""
        return self.kind != "unix"


def parse(address: str) -> Endpoint:
    """A URL, the path of a socket, or ADDRESS:PORT as `gpuyard serve --listen` has it."""
    if address.startswith("ssh://"):
        return parse_ssh(address)
    if address.startswith("https://"):
        return parse_https(address)
    if address.startswith("unix:"):
        return _unix(address, re.sub(r"^unix:(//)?", "", address))
    if address.startswith("http://"):
        host, port = _split_host(address, address[len("http://"):].rstrip("/"))
        return Endpoint("tcp", host=host, port=port or _refuse(address, "it has no port"))
    if "/" in address:
        return _unix(address, address)
    host, port = _split_host(address, address)
    return Endpoint("tcp", host=host, port=port or _refuse(address, f"it is {FORMS}"))


def parse_ssh(url: str) -> Endpoint:
    """ssh://[user@]host[:port][/path/of/gpuyard]; a path "/~/..." is in the user's home there."""
    rest, slash, path = url[len("ssh://"):].partition("/")
    program = slash + path if path else ""
    user = ""
    if "@" in rest:
        user, _, rest = rest.rpartition("@")
        if ":" in user:
            _refuse(url, "a password has no place in it; `ssh-copy-id` makes it unnecessary")
        if not _USER.match(user):
            _refuse(url, "a user has letters, digits, '.', '_', '+', '-' and '@', and may follow a "
                         "domain and a backslash")
    host, port = _split_host(url, rest)
    if program and not _PROGRAM.match(program):
        _refuse(url, "the path is that of the program gpuyard there, of letters, digits, '.', "
                     "'_', '+', '-' and '@', in the home directory if it begins with /~/")
    return Endpoint("ssh", path=program, host=host, port=port, user=user)


def parse_https(url: str) -> Endpoint:
    """https://host[:port]"""
    rest = url[len("https://"):]
    if rest.endswith("/"):
        rest = rest[:-1]
    if "@" in rest:
        _refuse(url, "a token has no place in it; GPUYARD_TOKEN has")
    host, port = _split_host(url, rest)
    # Each host has one name, by which its pin and its token are found.
    host = host.lower()
    if host.endswith("."):
        host = host[:-1]
    if not host or host.endswith("."):
        _refuse(url, "a host has no empty part")
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


def _unix(address: str, path: str) -> Endpoint:
    if not path.startswith("/") and address.startswith("unix:"):
        _refuse(address, "the path of a socket begins with /, as in "
                         "unix:///run/gpuyard/gpuyard.sock")
    if "\0" in path or len(path.encode("utf-8", "surrogateescape")) > _LONGEST_PATH:
        _refuse(address, f"the path of a socket has at most {_LONGEST_PATH} bytes")
    return Endpoint("unix", path=path)


def _split_host(url: str, text: str) -> tuple[str, int]:
    """Host and port; port 0: none was said."""
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        good = bool(bracket) and bool(_SIX.match(host))
    else:
        host, colon, port = text.partition(":")
        rest = colon + port
        good = bool(_HOST.match(host))
    if not good:
        _refuse(url, "a host has letters, digits, '.', '_' and '-', the last not in front, or it "
                     "is an IPv6 address in brackets")
    if not rest:
        return host, 0
    if not rest.startswith(":") or not _PORT.match(rest[1:]) or not 0 < int(rest[1:]) < 65536:
        _refuse(url, "a port from 1 to 65535 may follow the host, and nothing else")
    return host, int(rest[1:])


def _refuse(address: str, why: str) -> NoReturn:
    raise Invalid(f"{address!r} is no place of a daemon: {why}")
