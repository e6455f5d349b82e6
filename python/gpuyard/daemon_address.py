"""Finds the daemon to use: from the argument of the caller, the environment, hosts.toml and the
sockets of this machine. The order and the errors are those of the program gpuyard.
"""

from __future__ import annotations

import binascii
import os
import socket
import stat
import struct
from typing import Mapping, NamedTuple

from . import endpoint as places
from .endpoint import Endpoint
from .errors import Denied, Error, Invalid, NotFound, Unavailable, Unsupported
from .hosts_file import Host, read_hosts

SYSTEM_SOCKET = "/run/gpuyard/gpuyard.sock"
_MOST_TOKEN = 4096  # bytes of a file with a token
_TOKEN_LENGTH = 61
_BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class Environment(NamedTuple):
    """The user and the environment variables; a test makes its own."""

    uid: int
    variables: Mapping[str, str]

    @staticmethod
    def of_process() -> Environment:
        return Environment(getattr(os, "geteuid", lambda: 65534)(), os.environ)

    def get(self, name: str) -> str:
        return self.variables.get(name, "")

    @property
    def hosts_file(self) -> str:
        folder = self.get("XDG_CONFIG_HOME")
        if not folder:
            home = self.get("HOME")
            folder = f"{home}/.config" if home else "/etc"
        return f"{folder}/gpuyard/hosts.toml"


def select_daemon(host: str, token_file: str = "", environment: Environment | None = None
                  ) -> Endpoint:
    """The address of the daemon `host`; "": that of GPUYARD_HOST or GPUYARD_SOCKET, or of the
    daemon on this machine. Sends no request.
    """
    env = environment or Environment.of_process()
    named = host or env.get("GPUYARD_HOST")
    in_socket = env.get("GPUYARD_SOCKET")
    if not named:
        if in_socket:
            return _add_credentials(places.parse(in_socket), token_file, env)
        return _find_local_daemon(env)
    found = _add_credentials(_address_of(named, env), token_file, env)
    if not host and in_socket and places.parse(in_socket).name != found.name:
        raise Invalid("GPUYARD_HOST cannot be used with GPUYARD_SOCKET")
    return found


def _address_of(host: str, env: Environment) -> Endpoint:
    if "://" in host:
        if not host.startswith(("ssh://", "https://", "unix://")):
            raise Invalid(f'expected {places.FORMS}; got "{host}"')
        return places.parse(host)
    if not places.is_host_name(host):
        raise Invalid(f'expected {places.FORMS}; got "{host}"')
    file = env.hosts_file
    known = read_hosts(file, env.uid)
    if host not in known:
        raise NotFound(f'host "{host}" not found in {file}; to connect over ssh, use ssh://{host}')
    try:
        return places.parse(known[host].url)
    except Error as error:
        raise Invalid(f"{file}: {host}: {error}") from None


def _add_credentials(found: Endpoint, token_file: str, env: Environment) -> Endpoint:
    """Adds the pin and the token to an https endpoint."""
    if found.kind == "unix" and not hasattr(socket, "AF_UNIX"):
        raise Unsupported(f"this system has no Unix sockets such as {found.path}; name a host: "
                          f"{places.FORMS}")
    if found.kind != "https":
        return found
    known = _entry_of(found, env)
    if env.get("GPUYARD_TOKEN") and env.get("GPUYARD_TOKEN_FILE") and not token_file:
        raise Invalid("GPUYARD_TOKEN cannot be used with GPUYARD_TOKEN_FILE")
    token = "" if token_file else env.get("GPUYARD_TOKEN")
    source = "GPUYARD_TOKEN"
    if not token:
        of_environment = env.get("GPUYARD_TOKEN_FILE")
        if of_environment and not token_file and not of_environment.startswith(("/", "~/")):
            raise Invalid(f"GPUYARD_TOKEN_FILE: {of_environment!r} is not an absolute path; it "
                          "begins with / or ~/")
        source = (token_file or of_environment.replace("{}", found.host)
                  or _absolute_path(known.token_file, "token_file", env))
        if source.startswith("~/") and env.get("HOME"):
            source = env.get("HOME") + source[1:]
        token = _read_token(source) if source else ""
    _check_token(token, source)
    ca_file = _absolute_path(known.ca_file, "ca_file", env)
    if ca_file.startswith("~/"):
        ca_file = env.get("HOME") + ca_file[1:]
    return found._replace(pin=known.pin, ca_file=ca_file, token=token)


def _entry_of(found: Endpoint, env: Environment) -> Host:
    """The entry of this host in hosts.toml, under any name. Entries that differ are refused,
    because the one without the pin could apply."""
    known, known_as = Host(""), ""
    for name, one in read_hosts(env.hosts_file, env.uid).items():
        if not _is_url_of(one.url, found):
            continue
        if known_as and known[1:] != one[1:]:
            raise Invalid(f"{env.hosts_file}: {known_as} and {name} are the same host, "
                          f"{found.name}, but differ in pin, ca_file or token_file; make them "
                          "equal, or remove one of them")
        known, known_as = one, name
    return known


def _is_url_of(url: str, found: Endpoint) -> bool:
    try:
        return url.startswith("https://") and places.parse(url).name == found.name
    except Error:
        return False


def _absolute_path(path: str, key: str, env: Environment) -> str:
    """Checks a path in hosts.toml: a relative one would depend on the current directory."""
    file, home = env.hosts_file, env.get("HOME")
    if not path or path.startswith("/") or (path.startswith("~/") and home):
        return path
    if path.startswith("~/"):
        raise Invalid(f'{file}: {key}: "{path}": no home directory, because HOME is not set; use '
                      "an absolute path")
    raise Invalid(f'{file}: {key}: "{path}" is not an absolute path; it must begin with / or ~/')


def _read_token(file: str) -> str:
    """Reads a token that only its user can read."""
    try:
        with open(file, "rb") as opened:
            # The mode of the opened file: the path could be replaced in between.
            mode = os.fstat(opened.fileno()).st_mode
            if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
                raise Denied(f"{file} is readable by others, and so is the token in it: run "
                             f"`chmod 600 {file}`, and create a new token")
            text = opened.read(_MOST_TOKEN + 1)
    except OSError as error:
        kind = NotFound if isinstance(error, FileNotFoundError) else Denied
        raise kind(f"cannot read the token in {file}: {error.strerror}") from None
    if len(text) > _MOST_TOKEN:
        raise Invalid(f"{file} contains more than a token")
    return text.decode("ascii", "replace").strip()


def _check_token(token: str, source: str) -> None:
    if not token:
        return
    if not token.startswith("gpy_"):
        raise Invalid(f"{source}: not a gpuyard token: tokens begin with \"gpy_\"")
    if len(token) != _TOKEN_LENGTH:
        raise Invalid(f"{source}: expected a token of {_TOKEN_LENGTH} characters, got "
                      f"{len(token)}: part of it is missing, or something was added")
    good_letters = token[4:].isascii() and token[4:].isalnum()
    if not good_letters or token[-6:] != _checksum(token[:-6]):
        raise Invalid(f"{source}: mistyped token: its checksum does not match")


def _checksum(text: str) -> str:
    """Six base-62 digits, so that a mistyped token is never sent."""
    rest, letters = binascii.crc32(text.encode("ascii")), ""
    for _ in range(6):
        rest, digit = divmod(rest, len(_BASE62))
        letters = _BASE62[digit] + letters
    return letters


def _find_local_daemon(env: Environment) -> Endpoint:
    if not hasattr(socket, "AF_UNIX"):
        raise Unsupported("gpuyard does not run on this system; name a host: " + places.FORMS)
    for path in _trusted_sockets(env):
        if _is_listening(path, env.uid):
            return Endpoint("unix", path=path)
    raise Unavailable("no daemon is running on this machine; start one with `gpuyard serve`")


def _trusted_sockets(env: Environment) -> list[str]:
    """The sockets to try; not one that another user may have prepared in /tmp."""
    sockets = [SYSTEM_SOCKET]
    if env.uid == 0:
        return sockets
    runtime = env.get("XDG_RUNTIME_DIR")
    if runtime:
        return [*sockets, f"{runtime}/gpuyard/gpuyard.sock"]
    fallback = f"/tmp/gpuyard-{env.uid}"
    try:
        info = os.lstat(fallback)
    except OSError:
        return sockets
    private = stat.S_ISDIR(info.st_mode) and info.st_uid == env.uid and not info.st_mode & 0o022
    return [*sockets, f"{fallback}/gpuyard.sock"] if private else sockets


def _is_listening(path: str, uid: int) -> bool:
    """Whether a trusted daemon listens there. A connection is enough; no response is needed."""
    system = path == SYSTEM_SOCKET  # only an administrator can put a socket there
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except BlockingIOError:
            return system  # its queue is full, so it listens
        except OSError:
            return False
        option = getattr(socket, "SO_PEERCRED", None)
        if system or option is None:
            return system
        peer = struct.unpack("3i", probe.getsockopt(socket.SOL_SOCKET, option, 12))
        return peer[1] in (0, uid)
