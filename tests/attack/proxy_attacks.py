"""Requests with two meanings, sent through a proxy that others use as well."""

import http.client
import time
from concurrent.futures import ThreadPoolExecutor

from http_attacks import desync_cases
from proxies import ROOT, Proxy
from strangers import Beside, connect

HEAD = b"POST /health HTTP/1.1\r\nHost: localhost\r\n"
HIDDEN = b"GET /api/gpu/devices/smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
# In each of ours HIDDEN is a body for who reads it one way, and a request for who reads it the other.
OURS = {
    "two lengths": HEAD + b"Content-Length: 0\r\nContent-Length: %d\r\n\r\n" % len(HIDDEN) + HIDDEN,
    "equal lengths": HEAD + b"Content-Length: %d\r\n" % len(HIDDEN) * 2 + b"\r\n" + HIDDEN,
    "a list of lengths": HEAD + b"Content-Length: %d,%d\r\n\r\n" % (len(HIDDEN), len(HIDDEN)) + HIDDEN,
    "a length and chunks": HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + HIDDEN,
    "chunks by another name": HEAD + b"Content-Length: 5\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + HIDDEN,
    "chunks behind a tab": HEAD + b"Content-Length: 5\r\nTransfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n" + HIDDEN,
    "a folded field": HEAD + b"X: a\r\n Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n" + HIDDEN,
    "a name with a blank": HEAD + b"Content-Length : %d\r\n\r\n" % len(HIDDEN) + HIDDEN,
    "lines that end early": HEAD.replace(b"\r\n", b"\n") + b"Content-Length: %d\n\n" % len(HIDDEN) + HIDDEN,
    "a chunk with more": HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;\n\r\nx\r\n0\r\n\r\n" + HIDDEN,
    "a body in the old way": HEAD.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + HIDDEN,
    "two at once": HEAD + b"Content-Length: 0\r\n\r\n" + HIDDEN,
}


def send(port, request):
    with connect(port) as one:
        one.settimeout(2)
        try:
            one.sendall(request)
            while one.recv(65536):
                pass
        except OSError:
            pass


class Neighbour(Beside):
    """Another user of the proxy, who asks for something else each time: is each answer his own?"""

    def __init__(self, port):
        self.asked, self.wrong = 0, []
        self._port = port

    def _ask(self):
        while not self._stop.is_set():
            one = http.client.HTTPConnection("127.0.0.1", self._port, timeout=10)
            self.asked += 1
            try:
                one.request("GET", f"/api/gpu/devices/n{self.asked}")
                answer = one.getresponse().read().decode()
                if f'n{self.asked}' not in answer or "smuggled" in answer:
                    self.wrong.append(answer)
            except (OSError, http.client.HTTPException) as error:
                self.wrong.append(str(error))
            one.close()
            time.sleep(0.01)


def behind_proxies(yard, board):
    cases = [(name, request) for name, request, _ in desync_cases() or []] + list(OURS.items())
    if not (ROOT / "usr/sbin/haproxy").exists():
        return board.skip("requests with two meanings behind proxies", "tools/clients_proxies.sh got none")
    for name in ("nginx", "haproxy"):
        proxy = Proxy(name, yard.place, yard.daemon.port)
        try:
            with Neighbour(proxy.port) as neighbour, ThreadPoolExecutor(16) as clients:
                for _ in clients.map(lambda case, port=proxy.port: send(port, case[1]), cases):
                    pass
            time.sleep(1.5)  # the proxy drops an incomplete request
            (whole, sent), answered = proxy.forwarded(), proxy.tap.answers
        finally:
            proxy.end()
        board.note(f"{len(cases)} requests with two meanings behind {name}",
                   f"{whole} whole of {sent} sent on, {answered} answered",
                   neighbour.asked < whole <= answered <= sent)
        board.note(f"a neighbour behind {name} has his own answers", f"{neighbour.asked}: {neighbour.wrong[:1]}",
                   neighbour.asked > 20 and not neighbour.wrong)


ALL = (behind_proxies,)
