"""older.py GPUYARD PATH...: `gpuyard dial-stdio` to a daemon that does not know these paths.

A request for one is sent on with a path that no daemon knows, so that the daemon's own 404 comes back;
what the daemon says goes past this program. It runs under Debian's python3, as any user.
"""

import os
import subprocess
import sys
import threading

UNKNOWN = b"/api/gpu/older"


def strange(path, unknown):
    bare = path.split(b"?")[0]
    return any(bare == one or (one.endswith(b"/") and bare.startswith(one)) for one in unknown)


def rewrite(request_line, unknown):
    method, path, version = request_line.split(b" ")
    return b" ".join([method, UNKNOWN + path if strange(path, unknown) else path, version])


def send_on(source, sink, unknown):
    """Requests, one after the other; a body has a Content-Length."""
    while request_line := source.readline():
        sink.write(rewrite(request_line, unknown))
        length = 0
        while (line := source.readline()).strip():
            name, _, value = line.partition(b":")
            length = int(value) if name.strip().lower() == b"content-length" else length
            sink.write(line)
        sink.write(line + source.read(length))
        sink.flush()


def main(program, *paths):
    dial = subprocess.Popen([program, "dial-stdio"], stdin=subprocess.PIPE)
    unknown = [path.encode() for path in paths]
    threading.Thread(target=lambda: os._exit(dial.wait()), daemon=True).start()
    try:
        send_on(sys.stdin.buffer, dial.stdin, unknown)
    except BrokenPipeError:
        pass
    dial.stdin.close()
    dial.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
