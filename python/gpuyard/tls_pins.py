"""Verifies a TLS server: by a chain of certificates, or by the hash of its public key, the pin.

Python's ssl returns the certificate of the server but not its public key, so a small parser finds
the key in it. The certificate is not trusted yet: the parser reads eight fields, copies one, and
refuses anything unexpected.
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
    """With a pin only the pin decides, not the chain, name or dates; as in the program gpuyard."""
    context = ssl.create_default_context()
    if ca_file and not pin:
        try:
            context.load_verify_locations(ca_file)
        except OSError as error:  # an SSLError is one
            raise Invalid(f"{ca_file} contains no trusted certificates, although ca_file points "
                          f"to it: {error}") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if pin:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def check_pin(pin: str, certificate: bytes | None, name: str) -> None:
    """Raises Denied if the certificate has another public key."""
    shown = pin_of(certificate or b"")
    if not hmac.compare_digest(shown, pin):
        raise Denied(f"{name} is not trusted: its public key is {shown}, not {pin} as pinned; if "
                     "its owner has changed the key, pin the new one, which `gpuyard tls show` "
                     "prints on that machine")


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
    """Reads the elements of one DER value."""

    def __init__(self, data: bytes, start: int = 0, end: int | None = None) -> None:
        self._data = data
        self._at = start
        self._end = len(data) if end is None else end

    def tag(self) -> int:
        if self._at >= self._end:
            _refuse()
        return self._data[self._at]

    def _bounds(self) -> tuple[int, int]:
        """The start and the end of the content of the next element."""
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
    raise Denied("the server presented no readable certificate")
