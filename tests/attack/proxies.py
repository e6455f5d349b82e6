"""Debian's nginx and haproxy in front of a daemon, each keeping its connections to it open; and, in
between, what counts the daemon's answers."""

import os
import re
import socket
import subprocess
import threading
from pathlib import Path

from program import PATIENCE, free_port, wait_until

ROOT = Path("build/clients/proxies/root").resolve()
NGINX = """
daemon off; worker_processes 1; pid {place}/nginx.pid; error_log {place}/nginx.errors; user nobody nogroup;
events {{ worker_connections 256; }}
http {{
  log_format forwarded "$upstream_addr=$upstream_status";
  access_log {place}/nginx.log forwarded;
  client_body_temp_path {place}/nginx.body; proxy_temp_path {place}/nginx.proxy;
  fastcgi_temp_path {place}/nginx.f; uwsgi_temp_path {place}/nginx.u; scgi_temp_path {place}/nginx.s;
  client_header_timeout 1s; client_body_timeout 1s;
  upstream yard {{ server 127.0.0.1:{behind}; keepalive 8; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://yard; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_set_header Host localhost; proxy_next_upstream off; proxy_request_buffering off;
    }}
  }}
}}
"""
HAPROXY = """
defaults
  mode http
  timeout connect 2s
  timeout client 1s
  timeout server 20s
  retries 0
  http-reuse always
  log stdout format raw local0
  log-format "%s=%ts"
frontend front
  bind 127.0.0.1:{port}
  http-request set-header Host localhost
  default_backend yard
backend yard
  server daemon 127.0.0.1:{behind}
"""


class Tap:
    """Passes bytes to the daemon and back, and counts its answers."""

    def __init__(self, port):
        self.to = port
        self.answers = 0
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self.to), timeout=PATIENCE)
            far.settimeout(None)
            threading.Thread(target=self._pass_on, args=(near, far, False), daemon=True).start()
            threading.Thread(target=self._pass_on, args=(far, near, True), daemon=True).start()

    def _pass_on(self, source, to, counts):
        tail = b""  # an answer's first words may come in two pieces
        try:
            while piece := source.recv(65536):
                if counts:
                    found = len(re.findall(rb"HTTP/1\.1 (?!100)\d{3} ", tail + piece))
                    tail = (tail + piece)[-12:]
                    with self._lock:
                        self.answers += found
                to.sendall(piece)
        except OSError:
            pass
        for one in (source, to):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def end(self):
        self._listener.close()


class Proxy:
    """`name` is nginx or haproxy."""

    def __init__(self, name, place, daemon_port):
        self.name = name
        self.tap = Tap(daemon_port)
        self.port = free_port()
        place.chmod(0o711)
        self._log = place / f"{name}.log"
        config = place / f"{name}.conf"
        text = NGINX if name == "nginx" else HAPROXY
        config.write_text(text.format(place=place, port=self.port, behind=self.tap.port))
        words = {"nginx": ["-p", str(place), "-c", str(config)], "haproxy": ["-db", "-f", str(config)]}[name]
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                [ROOT / "usr/sbin" / name, *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, "LD_LIBRARY_PATH": str(ROOT / "usr/lib/x86_64-linux-gnu")})

        def listens():
            with socket.socket() as one:
                return one.connect_ex(("127.0.0.1", self.port)) == 0
        wait_until(listens, f"{name} to listen")

    def forwarded(self):
        """The number of requests it has sent on, by its own log: those that came to their end, and all. A client
        may leave before its request is whole; then no response is sent."""
        to = "daemon=" if self.name == "haproxy" else f"127.0.0.1:{self.tap.port}="
        sent = [word for word in self._log.read_text(encoding="utf-8", errors="replace").split()
                if word.startswith(to)]
        return sum(re.fullmatch(r".*=(--|\d+)", word) is not None for word in sent), len(sent)

    def end(self):
        self._process.terminate()
        self._process.wait(PATIENCE)
        self.tap.end()
