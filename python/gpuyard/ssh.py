"""Connects to a daemon through ssh: starts ssh, and turns its errors into ours.

`ssh HOST gpuyard dial-stdio` prints one line once it has connected to the daemon; from then on its
stdin and stdout are an HTTP connection.
"""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from typing import NamedTuple

from .endpoint import Endpoint
from .errors import Denied, Error, Internal, TimedOut, Unavailable, Unsupported

GREETING = b"gpuyard-dial-stdio 1\n"
MOST_BEFORE_GREETING = 64 * 1024  # bytes that the start-up files of the remote shell may print
LOGIN_SECONDS = 15.0

_MOST_SAID = 8 * 1024  # the last bytes of stderr, which are stored
_LINES_SAID = 3
_ENDS_WITHIN = 0.5  # seconds from the end of a connection until ssh has printed the cause

# The flags are those of the program. BatchMode: a question would block. ControlMaster=no: a shared
# connection is used, but none is left open. The rest disables what the user's configuration may add
# for a shell.
_FLAGS = (
    "-T", "-a", "-x", "-oBatchMode=yes", "-oConnectTimeout=10", "-oServerAliveInterval=5",
    "-oServerAliveCountMax=3", "-oClearAllForwardings=yes", "-oTunnel=no", "-oControlMaster=no",
    "-oPermitLocalCommand=no", "-oRemoteCommand=none", "-oLogLevel=ERROR",
)


class _Reason(NamedTuple):
    words: str
    kind: type[Error]
    what: str
    next_step: str  # {} is what follows `ssh` on a command line


# ssh has one exit code for all its errors, and its messages are always in English.
_REASONS = (
    _Reason("has changed and you have requested", Denied, "its host key has changed",
            "The connection may be intercepted, or the machine was reinstalled: ask its "
            "administrator before you remove the old key"),
    _Reason("Host key verification failed", Denied, "ssh does not know its host key",
            "Run `ssh {}` once to see and confirm it; check it with the administrator"),
    _Reason("Permission denied", Denied, "ssh was refused access",
            "gpuyard does not ask for passwords: install your key with `ssh-copy-id {0}`, unlock "
            "it with `ssh-add`, and test with `ssh -o BatchMode=yes {0} true`"),
    _Reason("Could not resolve hostname", Unavailable, "unknown host",
            "Check the name in DNS or ~/.ssh/config"),
    _Reason("Connection refused", Unavailable, "no ssh server is listening there",
            "Check the port and that sshd is running"),
    _Reason("timed out", Unavailable, "it cannot be reached",
            "Check that the machine and the network are up"),
    _Reason("No route to host", Unavailable, "it cannot be reached",
            "Check that the machine and the network are up"),
    _Reason("Network is unreachable", Unavailable, "it cannot be reached",
            "Check that the network is up"),
)
_OF_SSH = _Reason("", Unavailable, "ssh failed", "Make sure that `ssh {} true` works")
_NO_PROGRAM = _Reason("", Unavailable, "gpuyard was not found there in ssh's PATH",
                      "If it is installed elsewhere, give its path: ssh://HOST/path/of/gpuyard, "
                      "or in hosts.toml")
_TOO_OLD = _Reason("", Unsupported, "its gpuyard is too old for remote use",
                   "Install a newer version there")
_TOO_LATE = _Reason("", TimedOut, "it did not respond in time",
                    "Make sure that `ssh {} true` works")
_OF_DAEMON = _Reason("", Unavailable, "", "")
_ENDED = _Reason("", Unavailable, "the connection was closed", "")


def command_to(host: Endpoint) -> list[str]:
    words = ["ssh", *_FLAGS]
    if host.port:
        words += ["-p", str(host.port)]
    if host.user:
        words += ["-l", host.user]
    # The remote shell expands ~.
    program = host.path[1:] if host.path.startswith("/~/") else host.path
    return [*words, "--", host.host, program or "gpuyard", "dial-stdio"]


class Login:
    """A running ssh. `near` is our end of the connection, before the greeting."""

    def __init__(self, host: Endpoint) -> None:
        self.host = host
        self._said = bytearray()
        self._owner = os.getpid()
        if os.name == "nt":
            raise Unsupported(f"{host.name}: ssh:// is not supported on Windows; connect to the "
                              "daemon over https://")
        self.near, far = socket.socketpair()
        try:
            # A session of its own: Ctrl-C at the terminal must not end ssh, because this program
            # still has to cancel a claim through this connection.
            self._process = subprocess.Popen(
                command_to(host), stdin=far.fileno(), stdout=far.fileno(), stderr=subprocess.PIPE,
                start_new_session=True)
        except OSError:
            self.near.close()
            raise Unavailable(f"{host.name}: ssh is not installed on this machine. Install it: "
                              "apt install openssh-client") from None
        finally:
            far.close()
        self._stderr_reader = threading.Thread(target=self._read_stderr, daemon=True, name="gpuyard-ssh")
        self._stderr_reader.start()

    def _read_stderr(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as errors:
            while True:
                piece = os.read(errors.fileno(), 4096)
                if not piece:
                    return
                self._said += piece
                del self._said[:-_MOST_SAID]

    def why(self, too_late: bool = False) -> Error:
        """The error of an ssh that did not connect, or whose connection has ended. Ends it."""
        status: int | None = None
        if not too_late:
            try:
                status = self._process.wait(_ENDS_WITHIN)
            except subprocess.TimeoutExpired:
                pass
        self.end()
        self._stderr_reader.join(_ENDS_WITHIN)
        return explain(self.host, status, self._said.decode("utf-8", "replace"), too_late)

    def end(self) -> None:
        """In a child of fork only our end is closed: ssh is the parent's."""
        self.near.close()
        if os.getpid() != self._owner or self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(_ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def after_greeting(received: bytes) -> bool:
    """Whether the whole greeting has come; output of the remote shell may precede it."""
    at = received.find(GREETING)
    if at < 0:
        if len(received) > MOST_BEFORE_GREETING:
            raise Internal(f"received more than {MOST_BEFORE_GREETING} bytes without a greeting; "
                           "check that the other end is gpuyard")
        return False
    if at + len(GREETING) != len(received):
        raise Internal("received unexpected data")
    return True


def explain(host: Endpoint, status: int | None, said: str, too_late: bool = False) -> Error:
    """The error for an exit status of ssh and its messages."""
    reason = _reason_of(status, said, too_late)
    words = _last_lines(said)
    text = host.name
    if reason.what:
        text += f": {reason.what}"
    if words:
        text += f": {words}"
    if reason.next_step:
        port = f"-p {host.port} " if host.port else ""
        user = f"{host.user}@" if host.user else ""
        text += " " if text.endswith(".") else ". "
        text += reason.next_step.format(f"{port}{user}{host.host}")
    return reason.kind(text)


def _reason_of(status: int | None, said: str, too_late: bool) -> _Reason:
    if too_late:
        return _TOO_LATE
    if status is None:
        return _ENDED
    if status == 255:
        return next((reason for reason in _REASONS if reason.words in said), _OF_SSH)
    if status == 127 or "ommand not found" in said:
        return _NO_PROGRAM
    if "no verb dial-stdio" in said:
        return _TOO_OLD
    return _OF_DAEMON if said else _ENDED


def _last_lines(said: str) -> str:
    """The last lines in one, without the lines of signs that ssh draws around a warning."""
    lines = ["".join(c if c.isprintable() else "?" for c in line.strip())
             for line in said.splitlines() if line.strip("@*=- \t\r")]
    return "; ".join(lines[-_LINES_SAID:])
