"""Discovery services on a client's machine: a server of DNS, one of HTTP,
and one of TLS that records the tokens of its clients. Each is a thread of this process."""

import contextlib
import http.server
import os
import socket
import socketserver
import ssl
import struct
import threading

from enclosure import within

HERE = "127.0.0.1"
A, SRV = 1, 33


class Dns(socketserver.BaseRequestHandler):
    """Answers from `records`: {(name, A or SRV): [bytes of an answer]}; with None, it never does."""

    records = {}

    def handle(self):
        query, sock = self.request
        name, rest = unpacked_name(query[12:])
        kind = struct.unpack(">H", rest[:2])[0]
        if self.records is None:
            return
        known = any(one == name.lower() for one, _ in self.records)
        answers = self.records.get((name.lower(), kind), [])
        head = query[:2] + struct.pack(">HHHHH", 0x8580 if known else 0x8583, 1, len(answers), 0, 0)
        question = query[12:len(query) - len(rest) + 4]
        body = b"".join(b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 60, len(one)) + one for one in answers)
        sock.sendto(head + question + body, self.client_address)


def unpacked_name(data):
    labels = []
    while data[0]:
        labels.append(data[1:1 + data[0]].decode())
        data = data[1 + data[0]:]
    return ".".join(labels), data[1:]


def packed_name(name):
    return b"".join(bytes([len(one)]) + one.encode() for one in name.split(".")) + b"\0"


def service(target, port, priority=0):
    return struct.pack(">HHH", priority, 0, port) + packed_name(target)


class Page(http.server.BaseHTTPRequestHandler):
    """Answers GET with what `pages` has for the path, and notes what it was shown."""

    pages, shown = {}, []

    def do_GET(self):
        self.shown.append(self.headers.get("Authorization"))
        body = self.pages.get(self.path, "").encode()
        self.send_response(200 if self.path in self.pages else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def of_its_own(handler, **attributes):
    return type(handler.__name__, (handler,), attributes)


@contextlib.contextmanager
def serving(server):
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


class Lab:
    """The servers of a fleet's client."""

    def __init__(self, fleet):
        self.fleet = fleet
        self.enclosure = fleet.enclosure
        self.certificate = f"{fleet.file('lab-cert.pem')}"
        self.key = f"{fleet.file('lab-key.pem')}"

    def _made(self, kind, address, handler):
        with within(self.enclosure.holder, "net"):
            return kind(address, handler)

    @contextlib.contextmanager
    def dns(self, records):
        """The resolver of the client asks it. records=None: a server that says nothing."""
        server = self._made(socketserver.ThreadingUDPServer, (HERE, 53), of_its_own(Dns, records=records))
        with self._resolver(f"nameserver {HERE}\n"), serving(server):
            yield

    @contextlib.contextmanager
    def _resolver(self, text):
        path = os.path.realpath("/etc/resolv.conf")
        if path.startswith("/run/"):  # /run is the enclosure's own
            self.enclosure.write(path, text)
            yield
            return
        self.enclosure.write("/run/fleet/etc/resolv.conf", text)
        self.enclosure.must("mount", "--bind", "/run/fleet/etc/resolv.conf", path)
        try:
            yield
        finally:
            self.enclosure.must("umount", path)

    @contextlib.contextmanager
    def http(self, pages):
        """Returns the server's URL."""
        server = self._made(http.server.ThreadingHTTPServer, (HERE, 0), of_its_own(Page, pages=pages, shown=[]))
        with serving(server):
            yield f"http://{HERE}:{server.server_address[1]}"

    @contextlib.contextmanager
    def tls(self, pages=None):
        """Returns the port and the list of Authorization headers received. SSL_CERT_FILE=lab-cert.pem
        makes the certificate trusted."""
        self.enclosure.must(
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-days", "2", "-subj", "/CN=lab", "-addext", "subjectAltName=DNS:tls.lab,IP:127.0.0.1",
            "-out", "/run/fleet/client/lab-cert.pem", "-keyout", "/run/fleet/client/lab-key.pem")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        handler = of_its_own(Page, pages={} if pages is None else pages, shown=[])
        server = self._made(http.server.ThreadingHTTPServer, (HERE, 0), handler)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        with serving(server):
            yield server.server_address[1], handler.shown


def address(text):
    return socket.inet_aton(text)
