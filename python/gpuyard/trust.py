"""Whom to believe over TLS: a chain of certificates, or the hash of one public key, its pin.

Python's ssl gives the whole certificate of the other side but not its public key, so that a small
reader finds the key in it. A certificate comes from outside before anybody is trusted: the reader
looks at eight fields, copies one, and refuses what does not fit.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import ssl
from typing import NoReturn

from .errors import Denied, Invalid

_MOST_CERTIFICATE = 64 * 1024  # bytes
_SEQUENCE = 0x30
_VERSION = 0xA0


def context_for(pin: str, ca_file: str = "") -> ssl.SSLContext:
    """With a pin nothing else decides, no chain, name or date: so it is for the program, too."""
    context = ssl.create_default_context()
    if ca_file and not pin:
        try:
            context.load_verify_locations(ca_file)
        except OSError as error:  # an SSLError is one
            raise Invalid(f"{ca_file} holds no certificates to trust, but is named by ca_file: "
                          f"{error}") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if pin:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def check_pin(pin: str, certificate: bytes | None, name: str) -> None:
    """Denied if the certificate's public key is another one."""
    shown = pin_of(certificate or b"")
    if not hmac.compare_digest(shown, pin):
        raise Denied(f"{name} shows the key {shown}, and the pin in hosts.toml is {pin}. Somebody "
                     "may be listening, or its key was made anew: compare it with what `gpuyard "
                     "tls show` prints there")


def pin_of(certificate: bytes) -> str:
    """The SHA-256 of the public key in a DER certificate, as curl writes it."""
    key = public_key_in(certificate)
    return "sha256//" + base64.b64encode(hashlib.sha256(key).digest()).decode("ascii")


def public_key_in(certificate: bytes) -> bytes:
    """The SubjectPublicKeyInfo of RFC 5280, with its own tag and length."""
    if len(certificate) > _MOST_CERTIFICATE:
        _refuse()
    body = _Reader(certificate).enter(_SEQUENCE).enter(_SEQUENCE)
    if body.tag() == _VERSION:
        body.element()
    for _ in ("serial number", "signature", "issuer", "validity", "subject"):
        body.element()
    if body.tag() != _SEQUENCE:
        _refuse()
    return body.element()


class _Reader:
    """Goes over the elements of one DER value."""

    def __init__(self, data: bytes, start: int = 0, end: int | None = None) -> None:
        self._data = data
        self._at = start
        self._end = len(data) if end is None else end

    def tag(self) -> int:
        if self._at >= self._end:
            _refuse()
        return self._data[self._at]

    def _bounds(self) -> tuple[int, int]:
        """Where the content of the next element begins and ends."""
        if self._end - self._at < 2 or self._data[self._at] & 0x1F == 0x1F:
            _refuse()
        length = self._data[self._at + 1]
        start = self._at + 2
        if length & 0x80:
            count = length & 0x7F
            if not 1 <= count <= 3 or self._end - start < count:
                _refuse()
            length = int.from_bytes(self._data[start:start + count], "big")
            start += count
        if length > self._end - start:
            _refuse()
        return start, start + length

    def enter(self, tag: int) -> _Reader:
        if self.tag() != tag:
            _refuse()
        start, end = self._bounds()
        return _Reader(self._data, start, end)

    def element(self) -> bytes:
        _, end = self._bounds()
        element = self._data[self._at:end]
        self._at = end
        return element


def _refuse() -> NoReturn:
    raise Denied("the other side shows no certificate that can be read")
