"""Stands between an agent and the API server, and answers as a sick server or a sick network would, for the time
of a `with`. It ends the agent's TLS with a certificate of its own.

    with FaultyProxy(cluster) as proxy:
        node.start(...)                 # with proxy.kubeconfig(token)
        with proxy.failing("conflict"):
            ...
"""

import base64
import contextlib
import http.client
import json
import random
import socket
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from cluster_objects import kubeconfig


def status_body(code, reason, message="from the proxy"):
    return json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code,
                       "message": message}).encode()


# What becomes of one request. `forward` asks the API server, and returns its status, type and body.

def answer(code, reason, **headers):
    def fault(request, _):
        request.reply(code, "application/json", status_body(code, reason), headers)
    return fault


def conflict(request, forward):
    """Another has written meanwhile, as a controller that never rests does. Reads are answered."""
    if request.command == "GET":
        return request.reply(*forward())
    return request.reply(409, "application/json", status_body(409, "Conflict"))


def half(request, forward):
    """The connection breaks in the middle of the answer; what was asked is done."""
    status, kind, body = forward()
    request.reply(status, kind, body[:len(body) // 2], claimed=len(body))


def large(request, _):
    """5 MB of JSON that is not what was asked for."""
    request.reply(200, "application/json", b'{"kind": "List", "items": ["' + b"x" * 5_000_000 + b'"]}')


def endless(request, _):
    """A head that never ends."""
    with contextlib.suppress(OSError):
        for _number in range(200_000):
            request.wfile.write(b"HTTP/1.1 200 OK\r\nX-More: " + b"x" * 1000 + b"\r\n")
    request.close_connection = True


def garbage(request, _):
    request.reply(200, "application/json", random.randbytes(2000))


def cut(request, _):
    """No answer."""
    request.connection.shutdown(socket.SHUT_RDWR)
    request.close_connection = True


FAULTS = {
    "conflict": conflict, "half": half, "large": large, "endless": endless, "garbage": garbage, "cut": cut,
    "gone": answer(410, "Expired"), "internal": answer(500, "InternalError"),
    "unavailable": answer(503, "ServiceUnavailable"), "unauthorized": answer(401, "Unauthorized"),
    "throttled": answer(429, "TooManyRequests", **{"Retry-After": "2"}),
}


class FaultyProxy:
    """Of a ControlPlane. Thread: any."""

    def __init__(self, cluster):
        self._cluster = cluster
        self._url = urlsplit(cluster.api.url)
        self._fault = None
        self.counts = {name: 0 for name in FAULTS}  # requests that each fault has met
        proxy = self

        class Request(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 30

            def handle_one_request(self):
                with contextlib.suppress(OSError, ssl.SSLError):
                    return super().handle_one_request()
                self.close_connection = True

            def log_message(self, *_):
                pass

            def reply(self, status, kind, body, headers=None, claimed=None):
                self.send_response(status)
                for name, value in ({"Content-Type": kind, "Connection": "close"} | (headers or {})).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body) if claimed is None else claimed))
                self.end_headers()
                self.wfile.write(body)
                self.close_connection = True

            def serve(self):
                content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                proxy.handle(self, content)

            do_GET = do_POST = do_PATCH = do_DELETE = serve

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Request)
        self._server.daemon_threads = True
        self._server.socket = self._tls().wrap_socket(self._server.socket, server_side=True,
                                                      do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _tls(self):
        key, certificate = (str(self._cluster.place.outside(f"proxy.{kind}")) for kind in ("key", "crt"))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                        "-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=proxy",
                        "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
        with open(certificate, "rb") as file:
            self._ca = base64.b64encode(file.read()).decode()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        return context

    def kubeconfig(self, token, name):
        """Writes one for the owner of the token; returns its path."""
        url = f"https://127.0.0.1:{self._server.server_address[1]}"
        return self._cluster.place.write(name, kubeconfig(url, self._ca, token))

    @contextlib.contextmanager
    def failing(self, fault):
        """Each request meets this fault: a name in FAULTS."""
        self._fault = fault
        try:
            yield
        finally:
            self._fault = None

    def handle(self, request, content):
        def forward():
            connection = http.client.HTTPSConnection(self._url.hostname, self._url.port, timeout=30,
                                                     context=self._cluster.api.tls)
            try:
                kept = {name: request.headers[name] for name in ("Authorization", "Accept", "Content-Type")
                        if name in request.headers}
                connection.request(request.command, request.path, content or None, kept)
                found = connection.getresponse()
                return found.status, found.headers.get("Content-Type", ""), found.read()
            finally:
                connection.close()
        fault = self._fault
        if fault is None:
            return request.reply(*forward())
        self.counts[fault] += 1
        return FAULTS[fault](request, forward)
