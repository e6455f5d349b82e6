"""clock.py GPUYARD SECONDS: `gpuyard dial-stdio` to a daemon whose clock is ahead by SECONDS.

Requests pass unchanged; the "now" of a response is moved. It runs under Debian's python3,
as any user.
"""

import datetime
import re
import subprocess
import sys

NOW = re.compile(rb'(?<="now":")[^"]+')


def moved(text, seconds):
    """RFC 3339 of the same length."""
    when = datetime.datetime.fromisoformat(text.decode().replace("Z", "+00:00"))
    later = when + datetime.timedelta(seconds=seconds)
    return later.isoformat(timespec="milliseconds").replace("+00:00", "Z").encode()


def main(program, seconds):
    dial = subprocess.Popen([program, "dial-stdio"], stdout=subprocess.PIPE)
    answers, sink = dial.stdout, sys.stdout.buffer
    sink.write(answers.readline())  # the greeting
    sink.flush()
    while line := answers.readline():
        length = 0
        while line.strip():
            sink.write(line)
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
            line = answers.readline()
        body = NOW.sub(lambda now: moved(now.group(), int(seconds)), answers.read(length))
        assert len(body) == length
        sink.write(line + body)
        sink.flush()
    dial.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
