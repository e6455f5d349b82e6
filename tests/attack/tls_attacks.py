"""Attacks of strangers on a daemon that speaks TLS."""

import http.client
import json
import os
import shutil
import ssl
import statistics
import subprocess
import threading
import time
from pathlib import Path

from access_text import token_of
from strangers import Crowd, Healthy, client_hello, connect, context, memory, over_tls, plain
from program import wait_until
from receiver import make_certificate

OWN_NETWORK = "GPUYARD_ATTACK_OWN_NETWORK"  # set if the attack has a network namespace of its own
SOURCES = "198.18"  # addresses there beyond loopback


def handshakes_at_once(yard, board):
    crowd = Crowd(yard.port, 60 if board.short else 500)
    with Healthy(plain(yard)) as healthy:
        time.sleep(1)
        began = time.monotonic()
        agreed = crowd.shake_hands()
        took = time.monotonic() - began
    board.note(f"{crowd.count} handshakes at once", f"{len(agreed)} agreed in {took:.1f} s",
               len(agreed) == crowd.count)
    healthy.judge(board, "handshakes at once", 25, 50)
    for one in agreed:
        one.close()


def stalled_hellos(yard, board):
    hello = client_hello()
    stalled = []
    for number in range(256):
        one = connect(yard.port, f"127.0.1.{number % 16 + 1}")
        one.sendall(hello)
        stalled.append(one)
    time.sleep(0.5)
    began = time.monotonic()
    status = yard.curl("/health")[0]
    board.note("a new client beside 256 stalled hellos", f"{status}", status == 200)
    board.bar("a new client beside 256 stalled hellos", (time.monotonic() - began) * 1000, 250, "ms")
    time.sleep(6)  # beyond the deadline of a handshake
    closed = 0
    for one in stalled:
        one.settimeout(2)
        try:
            while one.recv(65536):
                pass
            closed += 1
        except ConnectionError:
            closed += 1
        except TimeoutError:
            pass
        one.close()
    board.note("stalled hellos that were ended in time", f"{closed} of 256", closed == 256)


def idle_connections(yard, board):
    before = memory(yard)
    count = 200 if board.short else 1536
    agreed = Crowd(yard.port, count).shake_hands(60)
    board.note(f"{count} idle connections over TLS", f"{len(agreed)}", len(agreed) == count)
    board.bar("memory of idle connections over TLS", memory(yard) - before, 64, "MiB")
    for one in agreed:
        one.close()


def talk(port, *pieces, seconds=5):
    """Returns the response to these bytes."""
    with connect(port) as one:
        one.settimeout(seconds)
        got = b""
        try:
            for piece in pieces:
                one.sendall(piece)
            while chunk := one.recv(65536):
                got += chunk
        except (OSError, TimeoutError):
            pass
        return got


def odd_talk(yard, board):
    board.note("plain HTTP to the port of TLS is told so", "",
               b" 400 " in talk(yard.port, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"))
    # Garbage that begins with a letter may be the beginning of plain HTTP, which is answered.
    for name, bytes_sent in (("garbage", b"\x80" + os.urandom(4095)), ("empty records", b"\x16\x03\x01\x00\x00" * 2000),
                             ("a record too long", b"\x16\x03\x01\xff\xff" + b"x" * 70000)):
        got = talk(yard.port, bytes_sent)
        board.note(f"{name}: no answer beyond an alert", f"{len(got)} bytes", len(got) < 64)
    with connect(yard.port) as raw:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        one = context().wrap_bio(incoming, outgoing, server_hostname="localhost")
        while True:
            try:
                one.do_handshake()
                break
            except ssl.SSLWantReadError:
                for byte in outgoing.read():  # each byte in a packet of its own
                    raw.sendall(bytes([byte]))
                incoming.write(raw.recv(65536))
        for byte in outgoing.read():
            raw.sendall(bytes([byte]))
        board.note("a handshake byte by byte", one.version(), one.version() == "TLSv1.3")
    for version, flag in (("TLS 1.0", "-tls1"), ("TLS 1.1", "-tls1_1")):
        done = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{yard.port}", flag, "-cipher",
                               "ALL:@SECLEVEL=0"], input=b"", capture_output=True, timeout=20, check=False)
        board.note(f"{version} is refused", "", done.returncode != 0)
    with subprocess.Popen(["openssl", "s_client", "-connect", f"127.0.0.1:{yard.port}", "-tls1_2",
                           "-legacy_renegotiation"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT) as client:
        time.sleep(1)
        client.stdin.write(b"R\n")
        client.stdin.flush()
        time.sleep(2)
        said = client.communicate(timeout=20)[0].decode(errors="replace")
    board.note("renegotiation is refused", "", "RENEGOTIATING" in said and "no renegotiation" in said)


def sslyze(yard, board):
    program = Path("build/attack-venv/bin/sslyze")
    if board.short or not program.exists():
        return board.skip("sslyze, Mozilla intermediate", "only in the whole attack, and with PyPI")
    done = subprocess.run([str(program), "--mozilla_config=intermediate", f"127.0.0.1:{yard.port}"],
                          capture_output=True, text=True, timeout=120, check=False)
    wrong = [line.strip() for line in done.stdout.splitlines() if line.strip().startswith("* ") and "FAILED" in line]
    told = done.stdout[done.stdout.find("COMPLIANCE"):]
    # A certificate of our own: trusted by no client, and valid for a year.
    excused = ("certificate_path_validation", "maximum_certificate_lifespan", "certificate_hostname_validation")
    found = [line.strip() for line in told.splitlines()
             if line.strip().startswith("*") and not any(word in line for word in excused)]
    board.note("sslyze, Mozilla intermediate", "; ".join(found + wrong) or "compliant, but for who signed it",
               not found and not wrong)


def testssl(yard, board):
    if board.short or not shutil.which("testssl"):
        return board.skip("testssl.sh", "only in the whole attack, and with Debian's package")
    out = yard.place / "testssl.json"
    subprocess.run(["testssl", "--quiet", "--warnings", "batch", "--color", "0", "--jsonfile", str(out),
                    f"127.0.0.1:{yard.port}"], capture_output=True, timeout=400, check=False)
    # Findings about a certificate without a signer, of a server without a name in DNS, and of one that leaves the
    # order of its ciphers to the client, as Mozilla has it: all of them are strong.
    excused = ("cipher_order", "cert_chain_of_trust", "cert_caRecords", "DNS_CAArecord", "cert_notBefore", "cert_validityPeriod",
               "cert_revocation", "OCSP", "overall_grade", "grade_cap", "cert_trust", "HSTS", "scanTime", "engine",
               "service", "HTTP_clock_skew", "security_headers", "cert_extlifeSpan", "cert_crlDistributionPoints",
               "certificate_transparency")
    found = [f"{one['id']}: {one['finding']}" for one in json.loads(out.read_text())
             if one["severity"] in ("MEDIUM", "HIGH", "CRITICAL") and not one["id"].startswith(excused)]
    board.note("testssl.sh: nothing above LOW", "; ".join(found[:4]), not found)


def swapped_certificates(yard, board):
    """New certificates under load; of every ten one has the key of another."""
    swaps = 20 if board.short else 1000
    pairs = []
    for number in range(3):
        folder = yard.place / f"pair{number}"
        folder.mkdir()
        certificate, key = make_certificate(folder)
        pairs.append((certificate.read_text(), key.read_text()))
    kept_keys = yard.key.read_text(), yard.certificate.read_text()

    def put(path, text):
        draft = path.with_suffix(".draft")
        draft.write_text(text)
        draft.chmod(0o600)
        os.replace(draft, path)
    stop, failed, asked = threading.Event(), [], []

    def ask(source, pause):
        trusting = context()
        while not stop.wait(pause):
            try:
                with trusting.wrap_socket(connect(yard.port, source), server_hostname="localhost") as one:
                    one.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                    answer = one.recv(4096)
                    asked.append(answer.startswith(b"HTTP/1.1 200"))
            except OSError as error:
                failed.append(error)
    count = 4 if board.short else 100
    clients = [threading.Thread(target=ask, args=(f"127.0.3.{number + 1}", count / 1000))
               for number in range(count)]
    for one in clients:
        one.start()
    for number in range(swaps):
        certificate, key = pairs[number % 3]
        put(yard.key, pairs[(number + 1) % 3][1] if number % 10 == 9 else key)
        put(yard.certificate, certificate)
        time.sleep(0.12 if board.short else 0.03)
    put(yard.key, pairs[1][1])
    put(yard.certificate, pairs[0][0])
    notes = wait_until(lambda: yard.daemon.get("/ready", unix=True).json()["notes"], "the reason in /ready")
    board.note("a broken certificate is told in /ready", notes[0][:60], "key" in notes[0])
    put(yard.key, kept_keys[0])
    put(yard.certificate, kept_keys[1])
    wait_until(lambda: not yard.daemon.get("/ready", unix=True).json()["notes"], "the good one")
    stop.set()
    for one in clients:
        one.join(30)
    board.note(f"{swaps} swaps under {len(asked)} requests", f"failed: {failed[:2]}, {asked.count(False)} bad",
               not failed and all(asked) and len(asked) > swaps)


def guesses(yard, board):
    """Wrong tokens from one address; others are answered as ever."""
    good = yard.make_token("good")
    count = 300 if board.short else 10000
    wrong = f"gpy_{'a' * 57}"
    statuses = []

    left = iter(range(count))  # shared: who is answered 429 at once makes more of them

    def guess():
        connection = http.client.HTTPSConnection("127.0.0.1", yard.port, timeout=20, context=context(),
                                                 source_address=("127.0.0.9", 0))
        for _ in left:
            for _ in range(200):  # where too many shake hands at once, one is turned away
                try:
                    connection.request("GET", "/health", headers={"Authorization": f"Bearer {wrong}"})
                    answer = connection.getresponse()
                    answer.read()
                    statuses.append(answer.status)
                    break
                except (OSError, http.client.HTTPException):
                    connection.close()
                    time.sleep(0.05)
    workers = [threading.Thread(target=guess) for _ in range(100)]
    with Healthy(over_tls(yard), "/api/gpu/snapshot", {"Authorization": f"Bearer {good}"}, 0.01) as healthy:
        for one in workers:
            one.start()
        for one in workers:
            one.join(600)
    board.note(f"{count} wrong tokens of one address", f"401: {statuses.count(401)}, 429: {statuses.count(429)}",
               len(statuses) == count and set(statuses) <= {401, 429})
    healthy.judge(board, "wrong tokens", 50)
    lines = yard.local("audit", "--limit", "1000").count("invalid token")
    board.note("lines in the audit of all these", str(lines), 1 <= lines <= 70, "70 an hour")
    timing(yard, board)


def timing(yard, board):
    """Whether an unknown id takes another time than a wrong secret: Welch's t."""
    what = "unknown against wrong tokens, Welch's t"
    if OWN_NETWORK not in os.environ:  # the guesses of one party are answered one by one, later each time
        return board.skip(what, "only as root, in a network of its own")
    made = yard.make_token("known")
    known_id = made[4:12]
    times = {"unknown": [], "wrong": []}
    rounds = 100 if board.short else 1000
    for number in range(rounds):
        kinds = [("unknown", "zzzzzzzz"), ("wrong", known_id)]
        for kind, identity in kinds if number % 2 else reversed(kinds):  # the first of an address is noted
            source = f"{SOURCES}.{number // 250}.{number % 250 + 1}"
            with connect(yard.port, source) as raw, context().wrap_socket(raw) as one:
                request = (f"GET /health HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
                           f"{token_of(identity, number)}\r\n\r\n").encode()
                began = time.perf_counter()
                one.sendall(request)
                one.recv(4096)
                times[kind].append(time.perf_counter() - began)
    middle = {kind: sorted(one)[:len(one) * 9 // 10] for kind, one in times.items()}
    means = [statistics.mean(one) for one in middle.values()]
    error = sum(statistics.variance(one) / len(one) for one in middle.values()) ** 0.5
    t = abs(means[0] - means[1]) / error
    board.bar(what, t, 4.5, f"of {rounds} each")


ALL = (handshakes_at_once, stalled_hellos, idle_connections, odd_talk, sslyze, testssl, swapped_certificates, guesses)
