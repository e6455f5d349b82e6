"""A server that records requests and answers as a test sets."""

import base64
import http.server
import json
import ssl
import subprocess
import threading
import time


def make_certificate(directory, names="DNS:localhost,IP:127.0.0.1"):
    """Paths of a self-signed certificate and of its key."""
    certificate, key = directory / "cert.pem", directory / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=receiver",
                    "-addext", f"subjectAltName={names}", "-out", certificate, "-keyout", key],
                   check=True, capture_output=True)
    return certificate, key


class Told:
    """One request."""

    def __init__(self, handler, body):
        self.path = handler.path
        self.headers = {k.lower(): v for k, v in handler.headers.items()}
        self.text = body.decode()
        self.when = time.monotonic()
        self.answered = None  # the status, noted before it is sent: who has the answer finds it here

    def json(self):
        return json.loads(self.text)


def decoded(headers):
    """The credentials of a request, as servers may quote them in their responses."""
    scheme, _, text = headers.get("Authorization", "").partition(" ")
    return base64.b64decode(text).decode() if scheme == "Basic" else text


class Receiver:
    """`answers`: for the first requests, in turn: a status, (status, headers), or "drop"; then what
    `usual` is by then. An answer repeats what it was asked, as servers that explain themselves do."""

    def __init__(self, answers=(), certificate=None, usual=200):
        self.told = []
        self.answers = list(answers)
        self.usual = usual
        self.on_told = lambda: None  # called before each answer
        lock = threading.Lock()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                with lock:
                    told = Told(self, body)
                    receiver.told.append(told)
                    answer = receiver.answers.pop(0) if receiver.answers else receiver.usual
                receiver.on_told()
                if answer == "drop":
                    self.close_connection = True
                    return
                status, headers = answer if isinstance(answer, tuple) else (answer, {})
                echo = (f"{decoded(self.headers)} {self.path} {dict(self.headers)} "
                        f"{body.decode()}").encode()
                told.answered = status
                try:
                    self.send_response(status)
                    for name, value in headers.items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(echo)))
                    self.end_headers()
                    self.wfile.write(echo)
                except OSError:  # the client was killed
                    self.close_connection = True

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.scheme = "https" if certificate else "http"
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    @property
    def port(self):
        return self.server.server_address[1]

    def url(self, path="", host="127.0.0.1"):
        return f"{self.scheme}://{host}:{self.port}{path}"

    def taken(self):
        """The requests answered with success, whether or not the client lives to read it."""
        return [told for told in list(self.told) if told.answered and told.answered < 300]

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def secret_file(directory, name, text):
    path = directory / name
    path.write_text(text)
    path.chmod(0o600)
    return path
