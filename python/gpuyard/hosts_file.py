"""hosts.toml: the hosts that a user has given names, with the pin or the signer of each, and the
file of its token.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
import sys
from typing import Any, Mapping, NamedTuple, cast

from .endpoint import is_pin
from .errors import Denied, Invalid

_MOST_BYTES = 64 * 1024
_SECTION = re.compile(r"\[\s*(?:([A-Za-z0-9_-]+)|\"([^\"\\]*)\")\s*\]\Z")
_PAIR = re.compile(r"([A-Za-z0-9_-]+)\s*=\s*(?:\"([^\"\\]*)\"|'([^']*)')\s*(?:#.*)?\Z")


class Host(NamedTuple):
    url: str
    pin: str = ""
    ca_file: str = ""
    token_file: str = ""


def read_hosts(file: str, uid: int) -> Mapping[str, Host]:
    """The hosts by name; none if there is no file."""
    if uid == 0:
        _check_trusted_by_root(file)
    try:
        with open(file, "rb") as opened:
            text = opened.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise Denied(f"{file} cannot be read: {error.strerror}") from None
    if len(text) > _MOST_BYTES:
        raise Invalid(f"{file} has more than {_MOST_BYTES} bytes")
    document = _parse(text.decode("utf-8", "replace"), file)
    hosts: dict[str, Host] = {}
    for name, section in document.items():
        if isinstance(section, dict):
            fields: dict[str, Any] = cast(Any, section)
            hosts[name] = _host(name, fields, file)
    return hosts


def _host(name: str, section: Mapping[str, Any], file: str) -> Host:
    for key, value in section.items():
        if key not in Host._fields or not isinstance(value, str):
            raise Invalid(f"{file}: {name}.{key}: a host has url = \"ssh://...\", or url = "
                          "\"https://...\" with a pin or a ca_file and a token_file, and nothing "
                          "else")
    host = Host(*(section.get(key, "") for key in Host._fields))
    if not host.url:
        raise Invalid(f"{file}: {name} has no url")
    if not host.url.startswith("https://") and any(host[1:]):
        raise Invalid(f"{file}: {name}: only https:// has a pin, a ca_file or a token_file")
    if host.pin and not is_pin(host.pin):
        raise Invalid(f"{file}: {name}.pin: is none; `gpuyard tls show` on the host prints it")
    return host


def _parse(text: str, file: str) -> Mapping[str, Any]:
    if sys.version_info < (3, 11):
        return parse_subset(text, file)
    import tomllib
    try:
        document: Mapping[str, Any] = tomllib.loads(text)
        return document
    except tomllib.TOMLDecodeError as error:
        raise Invalid(f"{file}: {error}") from None


def parse_subset(text: str, file: str) -> Mapping[str, Any]:
    """What `gpuyard host add` writes: sections, and texts without escapes."""
    document: dict[str, Any] = {}
    section = document
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        head = _SECTION.match(line.split("#", 1)[0].strip())
        pair = _PAIR.match(line)
        if head:
            name = head.group(1) or head.group(2)
            if name in document:
                raise Invalid(f"{file}:{number}: {name} stands there twice")
            section = document[name] = {}
        elif pair and pair.group(1) not in section:
            section[pair.group(1)] = pair.group(2) or pair.group(3) or ""
        else:
            raise Invalid(f"{file}:{number}: before Python 3.11 this file may hold only lines "
                          "such as [name], and such as url = \"ssh://host\", each once")
    return document


def _check_trusted_by_root(file: str) -> None:
    """The file says which machine root changes, so only root may be able to write to it."""
    place: str = os.path.realpath(file)
    while True:
        try:
            info = os.stat(place)
        except OSError:
            info = None
        if info and not (stat.S_ISCHR(info.st_mode) and info.st_rdev == os.makedev(1, 3)):  # /dev/null
            mode = info.st_mode
            word = shlex.quote(place)
            # A directory or a device may have to be as it is for other programs.
            mends = (f"`chown root:root {word}` makes it root's", f"`chmod go-w {word}` ends that")
            if not stat.S_ISREG(mode):
                mends = ("keep it where only root may write",) * 2
            sticky = stat.S_ISDIR(mode) and mode & stat.S_ISVTX
            by_group = info.st_gid != 0 and mode & stat.S_IWGRP
            if info.st_uid != 0:
                raise Invalid(f"{file}: it says what root changes, and {place} belongs to uid "
                              f"{info.st_uid}; {mends[0]}")
            if not sticky and (by_group or mode & stat.S_IWOTH):
                raise Invalid(f"{file}: it says what root changes, and others may write to "
                              f"{place}; {mends[1]}")
        if place == "/":
            return
        place = os.path.dirname(place)
