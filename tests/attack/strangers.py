"""Clients of an attack: many handshakes at once, hellos that stop, and a healthy client beside them."""

import contextlib
import http.client
import selectors
import socket
import ssl
import threading
import time


def context(most=None):
    """Trusts everybody: the certificate is not what is attacked."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname = False
    made.verify_mode = ssl.CERT_NONE
    if most:
        made.maximum_version = most
    return made


def client_hello():
    """The first bytes of a handshake."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context().wrap_bio(incoming, outgoing).do_handshake()
    return outgoing.read()


def connect(port, source=None):
    return socket.create_connection(("127.0.0.1", port), timeout=20, source_address=source and (source, 0))


class Crowd:
    """Handshakes that go on at the same time, by one thread, so that the clients cost little."""

    def __init__(self, port, count):
        self.port = port
        self.count = count

    def shake_hands(self, seconds=30):
        """The sockets that are agreed within this time, still open. A client that is turned away, because many
        shake hands at once, tries again."""
        agreed, end = [], time.monotonic() + seconds
        while len(agreed) < self.count and time.monotonic() < end:
            agreed += self._round(self.count - len(agreed), end)
        return agreed

    def _round(self, count, end):
        selector, trusting, agreed = selectors.DefaultSelector(), context(), []
        for number in range(count):
            raw = connect(self.port, f"127.0.0.{number % 200 + 1}")
            raw.setblocking(False)
            one = trusting.wrap_socket(raw, do_handshake_on_connect=False)
            selector.register(one, selectors.EVENT_WRITE | selectors.EVENT_READ)
        while selector.get_map() and time.monotonic() < end:
            for key, _ in selector.select(0.1):
                try:
                    key.fileobj.do_handshake()
                    agreed.append(key.fileobj)
                    selector.unregister(key.fileobj)
                except ssl.SSLWantReadError:
                    selector.modify(key.fileobj, selectors.EVENT_READ)
                except ssl.SSLWantWriteError:
                    selector.modify(key.fileobj, selectors.EVENT_WRITE)
                except OSError:
                    selector.unregister(key.fileobj)
                    key.fileobj.close()
        return agreed


class Beside:
    """Asks in a thread of its own for as long as a block lasts."""

    def __enter__(self):
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ask)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join(30)


class Healthy(Beside):
    """Asks for /health on one connection, every few milliseconds, until it is stopped."""

    def __init__(self, make, path="/health", headers=None, pause=0.002):
        self.times = []
        self.bad = []
        self._asks = make, path, headers or {}, pause

    def _ask(self):
        make, path, headers, pause = self._asks
        connection = make()
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                connection.request("GET", path, headers=headers)
                answer = connection.getresponse()
                answer.read()
                if answer.status != 200:
                    self.bad.append(answer.status)
            except (OSError, http.client.HTTPException) as error:
                self.bad.append(error)
                connection = make()
            self.times.append((time.monotonic() - began) * 1000)
            time.sleep(pause)

    def quantile(self, share):
        return sorted(self.times)[min(len(self.times) - 1, int(len(self.times) * share))]

    def judge(self, board, what, most, longest=None):
        board.note(f"{what}: a healthy client beside it", f"{len(self.times)} requests, bad: {self.bad[:3]}",
                   not self.bad and self.times)
        board.bar(f"{what}: its 99 of 100", self.quantile(0.99), most, "ms")
        if longest:
            board.bar(f"{what}: its longest", max(self.times), longest, "ms")


def plain(yard):
    return lambda: http.client.HTTPConnection("127.0.0.1", yard.daemon.port, timeout=20)


def over_tls(yard):
    return lambda: http.client.HTTPSConnection("127.0.0.1", yard.port, timeout=20, context=context())


def memory(yard):
    """The resident memory of the daemon, MiB."""
    with open(f"/proc/{yard.daemon.process.pid}/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmRSS"))
