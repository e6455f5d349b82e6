"""A daemon that only leases, and is controlled by a test, for replies that the real one would not give
on request. One GPU; each claim is answered in the order of `script`.
"""

import http.server
import json
import os
import queue
import socketserver
import threading

from program import PATIENCE

GPU = {"index": 3, "uuid": "GPU-0003", "pci_address": "00000000:03:00.0", "name": "NVIDIA H100",
       "utilization_percent": 0, "memory_used_bytes": 0}
USE = {"held_s": 1.0, "energy_mj": 1500000, "energy_estimated": False, "mean_utilization_percent": 87.0,
       "peak_memory_bytes": 5 << 30, "idle_s": 0, "energy_unknown_s": 0, "settled": True}


def lease(name, state, **more):
    return {"id": name, "state": state, "binding": "run", "uid": os.geteuid(), "user": None, "pid": None,
            "note": "", "wanted_gpus": 1, "fence": None if state == "waiting" else 7,
            "gpus": [] if state == "waiting" else [GPU], "asked": "2026-01-31T12:00:00Z",
            "granted": None, "until": None, "ended": None, "ending": None, "why": "", "overdue": False,
            "place": None, "use": None} | more


def place(position, text, expected_s=None):
    return {"position": position, "why": "busy", "text": text, "expected_s": expected_s}


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 64


class FakeLeasing:
    """`claims`, `members`, `released` and `changes` are what it was asked, in order."""

    def __init__(self, socket):
        self.socket = str(socket)
        self.claims = []
        self.members = []
        self.released = []
        self.changes = []
        self.polled = "held"  # what a claim without a stream is answered
        self.members_answered = threading.Event()
        self.members_answered.set()
        self.no_streams = False  # all are taken
        self.silent = 0  # so many claims are not answered
        self.refuse = {}  # "claim", "member", "release", "power": (status, code, message)
        self.released_use = USE
        self.answer_release = True
        self.streams = []
        self.arrived = queue.Queue()
        self.server = None
        self.start()

    def start(self):
        if os.path.exists(self.socket):
            os.unlink(self.socket)
        fake = self

        class Handler(RequestHandler):
            leasing = fake

        self.server = Server(self.socket, Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self):
        """As if the daemon was killed: the socket is closed, and every stream breaks off."""
        self.server.shutdown()
        self.server.server_close()
        os.unlink(self.socket)
        for stream in self.streams:
            stream.put(None)
        self.streams = []

    def end(self):
        """Releases clients that wait for an answer, too."""
        self.answer_release = True
        self.members_answered.set()
        if os.path.exists(self.socket):
            self.stop()

    def name(self):
        return self.claims[-1]["id"]

    def next_claim(self):
        """Waits until a client claims; its body."""
        return self.arrived.get(timeout=PATIENCE)

    def tell(self, state, **more):
        """To the newest stream."""
        self.streams[-1].put(lease(self.name(), state, **more))

    def grant(self):
        self.tell("held")


class RequestHandler(http.server.BaseHTTPRequestHandler):
    leasing = None
    protocol_version = "HTTP/1.1"

    def address_string(self):
        return "unix"

    def log_message(self, *_):
        pass

    def body(self):
        text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return json.loads(text) if text else {}

    def answer(self, status, document):
        text = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
        self.close_connection = True

    def refused(self, what):
        if what not in self.leasing.refuse:
            return False
        status, code, message = self.leasing.refuse[what]
        self.answer(status, {"error": {"code": code, "message": message}})
        return True

    def do_POST(self):
        wish = self.body()
        if self.path.endswith("/processes"):
            self.leasing.members.append(wish)
            self.leasing.members_answered.wait(PATIENCE)
            if self.server is not self.leasing.server:  # it was killed meanwhile
                self.close_connection = True
                return
            if not self.refused("member"):
                self.answer(200, {"schema": 1, "simulated": True,
                                  "lease": lease(self.leasing.name(), "held")})
            return
        self.leasing.claims.append(wish)
        if self.leasing.silent > 0:
            self.leasing.silent -= 1
            self.leasing.arrived.put(wish)
            threading.Event().wait(PATIENCE)
            self.close_connection = True
        elif wish.get("stream") and self.leasing.no_streams:
            self.answer(503, {"error": {"code": "busy", "message": "too many streams are open"}})
        elif self.refused("claim"):
            self.leasing.arrived.put(wish)
        elif wish.get("stream"):
            self.stream()
        else:
            self.answer(200, {"schema": 1, "simulated": True,
                              "lease": lease(wish["id"], self.leasing.polled, binding="detached")})

    def stream(self):
        told = queue.Queue()
        self.leasing.streams.append(told)
        self.leasing.arrived.put(self.leasing.claims[-1])
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            while (now := told.get()) is not None:
                self.wfile.write(f"event: lease\ndata: {json.dumps(now)}\n\n".encode())
                self.wfile.flush()
        except OSError:
            pass  # the client is gone
        self.close_connection = True

    def do_GET(self):
        if not self.refused("show"):
            self.answer(200, {"schema": 1, "simulated": True,
                              "lease": lease(self.leasing.name(), "held", binding="detached")})

    def do_PUT(self):
        self.leasing.changes.append((self.path, self.body()))
        if not self.refused("power"):
            self.answer(200, {"schema": 1, "simulated": True, "changes": []})

    def do_DELETE(self):
        self.leasing.released.append(self.path)
        if not self.leasing.answer_release:
            threading.Event().wait(PATIENCE)
        if not self.refused("release"):
            waiting = not self.leasing.members and "fence" not in self.path
            ended = lease(self.leasing.claims[0]["id"], "ended", ending="released",
                          use=None if waiting else self.leasing.released_use)
            self.answer(200, {"schema": 1, "simulated": True, "lease": ended})
