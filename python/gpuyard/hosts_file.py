"""Reads hosts.toml: the named hosts of a user, each with its pin or its trusted certificates, and
with its token file.
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
        raise Denied(f"cannot read {file}: {error.strerror}") from None
    if len(text) > _MOST_BYTES:
        raise Invalid(f"{file} is larger than {_MOST_BYTES} bytes")
    document = _parse(text.decode("utf-8", "replace"), file)
    hosts: dict[str, Host] = {}
    for name, section in document.items():
        if isinstance(section, dict):
            fields: dict[str, Any] = cast(Any, section)
            hosts[name] = _parse_host(name, fields, file)
    return hosts


def _parse_host(name: str, section: Mapping[str, Any], file: str) -> Host:
    for key, value in section.items():
        if key not in Host._fields or not isinstance(value, str):
            raise Invalid(f"{file}: {name}.{key}: unknown key; a host has url = \"ssh://...\", or "
                          "url = \"https://...\" with a pin or a ca_file and a token_file")
    host = Host(*(section.get(key, "") for key in Host._fields))
    if not host.url:
        raise Invalid(f"{file}: {name} has no url")
    if not host.url.startswith("https://") and any(host[1:]):
        raise Invalid(f"{file}: {name}: pin, ca_file and token_file need an https:// url")
    if host.pin and not is_pin(host.pin):
        raise Invalid(f"{file}: {name}.pin: invalid; print the pin with `gpuyard tls show` on the "
                      "host")
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
    """Parses what `gpuyard host add` writes: sections, and strings without escapes."""
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
                raise Invalid(f"{file}:{number}: duplicate section {name}")
            section = document[name] = {}
        elif pair and pair.group(1) not in section:
            section[pair.group(1)] = pair.group(2) or pair.group(3) or ""
        else:
            raise Invalid(f"{file}:{number}: before Python 3.11 this file may only contain lines "
                          "such as [name] and url = \"ssh://host\", each of them once")
    return document


def _check_trusted_by_root(file: str) -> None:
    """The file decides on which machine root changes things, so only root may write to it."""
    place: str = os.path.realpath(file)
    while True:
        try:
            info = os.stat(place)
        except OSError:
            info = None
        if info and not (stat.S_ISCHR(info.st_mode) and info.st_rdev == os.makedev(1, 3)):  # /dev/null
            mode = info.st_mode
            word = shlex.quote(place)
            # Other programs may need the mode of a directory or a device.
            mends = tuple(f"fix this with `{command} {word}`"
                          for command in ("chown root:root", "chmod go-w"))
            if not stat.S_ISREG(mode):
                mends = ("keep it in a directory that only root can write to",) * 2
            sticky = stat.S_ISDIR(mode) and mode & stat.S_ISVTX
            by_group = info.st_gid != 0 and mode & stat.S_IWGRP
            if info.st_uid != 0:
                raise Invalid(f"{file}: it controls what root changes, but {place} belongs to UID "
                              f"{info.st_uid}; {mends[0]}")
            if not sticky and (by_group or mode & stat.S_IWOTH):
                raise Invalid(f"{file}: it controls what root changes, but other users can write "
                              f"to {place}; {mends[1]}")
        if place == "/":
            return
        place = os.path.dirname(place)
