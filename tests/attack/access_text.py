"""The text of a token, as docs/network.md has it: well-formed, but valid nowhere."""

import random
import zlib

BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def token_of(identity, seed):
    letters = random.Random(seed)
    text = f"gpy_{identity}" + "".join(letters.choice(BASE62) for _ in range(43))
    number, checksum = zlib.crc32(text.encode()), ""
    for _ in range(6):
        checksum = BASE62[number % 62] + checksum
        number //= 62
    return text + checksum
