"""A daemon that speaks TLS, with a certificate of `gpuyard tls init`, and its clients elsewhere."""

import json
import os
import re
import ssl
import subprocess

from program import PATIENCE, PROGRAM, Caller, clean_environment, wait_until


class NetYard(Caller):
    """`host` is the address of HTTPS; `environment` is a client's that knows only that."""

    def __init__(self, daemon, place, tls="", more="", before=None):
        self.place = place
        self.state = place / "state"
        self.environment = clean_environment(place)
        self.must("tls", "init", "--state", str(self.state), "--name", "localhost,127.0.0.1")
        self.certificate = self.state / "tls" / "certificate.pem"
        self.key = self.state / "tls" / "key.pem"
        self.config = place / "gpuyard.toml"
        self.config.write_text(f'[tls]\nlisten = ["127.0.0.1:0"]\n{tls}\n{more}\n')
        if before:
            before(self)
        self.daemon = daemon("--simulate", "2", "--config", str(self.config), directory=place)
        self.port = int(re.search(r"listening on https://127\.0\.0\.1:(\d+)", self.daemon.log()).group(1))
        self.host = f"https://127.0.0.1:{self.port}"
        self.pin = json.loads(self.must("tls", "show", "--state", str(self.state), "--json"))["pin"]

    def local(self, *arguments):
        return self.must(*arguments, GPUYARD_SOCKET=self.daemon.socket)

    def make_token(self, name, *arguments):
        """The token; also in the file `NAME.token`, which only its user can read."""
        out = self.place / f"{name}.token"

        def made():
            done = self.go("token", "create", name, "--out", str(out), *arguments, GPUYARD_SOCKET=self.daemon.socket)
            # A daemon that has just started has not read its tokens yet.
            assert done.returncode == 0 or "ask again" in done.stderr, done.stderr
            return done.returncode == 0

        wait_until(made, "the tokens to be read")
        return out.read_text().strip()

    def know_host(self, name="dgx1", pin=None, token=None):
        """Puts the host into the client's hosts.toml."""
        folder = self.place / "gpuyard"
        folder.mkdir(exist_ok=True)
        lines = [f"[{name}]", f'url = "{self.host}"', f'pin = "{pin or self.pin}"']
        if token:
            lines.append(f'token_file = "{self.place}/{token}.token"')
        (folder / "hosts.toml").write_text("\n".join(lines) + "\n")

    def curl(self, path, *arguments, token=None, trust=True):
        """Status and body of what curl is answered; None and its exit code, if it is not."""
        words = ["curl", "-sS", "-w", "\n%{http_code}", "--max-time", "20", *arguments, self.host + path]
        if trust:
            words += ["--cacert", str(self.certificate)]
        if token:
            words += ["-H", f"Authorization: Bearer {token}"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False,
                              env={**os.environ, "NO_PROXY": "*"})
        if done.returncode != 0:
            return None, done.returncode
        body, _, status = done.stdout.rpartition("\n")
        return int(status), body

    def shown(self):
        """The certificate that the daemon shows now, as PEM."""
        return ssl.get_server_certificate(("127.0.0.1", self.port))

    def wait_until_shown(self, path):
        wanted = path.read_text().split("-----END")[0].strip()
        wait_until(lambda: self.shown().split("-----END")[0].strip().replace("\n", "")
                   == wanted.replace("\n", ""), "the new certificate")


def refuses_to_start(place, text, *arguments):
    """Returns the error of `gpuyard serve`, which refuses this configuration with exit code 2."""
    config = place / "bad.toml"
    config.write_text(text)
    done = subprocess.run([PROGRAM, "serve", "--config", str(config), "--state", str(place / "state"),
                           "--socket", str(place / "s.sock"), *arguments], env=clean_environment(place),
                          capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 2, done.stdout + done.stderr
    return done.stderr.replace(str(config), "FILE")


def openssl(*words, **options):
    return subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, timeout=PATIENCE,
                          **options).stdout
