"""A worker for rlctl that limits as many do: read the count, compare, then count. Two requests can read the same count.

    rlctl race 'exec:python3 examples/workers/naive.py' --procs 20 --limit 100
"""
import json
import socket
import sys
from urllib.parse import urlparse


class Redis:
    """The little of Redis's protocol that this needs."""

    def __init__(self, url, timeout_ms):
        at = urlparse(url)
        if at.scheme == "unix":
            self.socket = socket.socket(socket.AF_UNIX)
            address = at.path
        else:
            self.socket = socket.socket()
            address = (at.hostname, at.port)
        self.socket.settimeout(timeout_ms / 1000 or None)
        self.socket.connect(address)
        self.file = self.socket.makefile("rb")
        if at.password:
            self("AUTH", *filter(None, [at.username]), at.password)

    def __call__(self, *words):
        text = b"*%d\r\n" % len(words)
        for word in words:
            word = str(word).encode()
            text += b"$%d\r\n%s\r\n" % (len(word), word)
        self.socket.sendall(text)
        return self.reply()

    def reply(self):
        line = self.file.readline()
        kind, rest = line[:1], line[1:].strip()
        if kind == b"-" or not line:
            raise OSError(rest.decode() or "connection closed")
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        return rest


def check(redis, rule, key, cost):
    key = "%s:{%s}:naive.py" % (rule["prefix"], key)
    count = int(redis("GET", key) or 0)
    if cost == 0:
        return True
    if count + cost > rule["limit"]:
        return False
    redis("MULTI")
    redis("INCRBY", key, cost)
    redis("PEXPIRE", key, rule["window_us"] // 1000, "NX")
    redis("EXEC")
    return True


redis, rule = None, None
for line in sys.stdin:
    asked = json.loads(line)
    if "open" in asked:
        if rule is None or rule["redis"] != asked["open"]["redis"]:
            redis = Redis(asked["open"]["redis"], asked["open"]["timeout_ms"])
        rule = asked["open"]
        answer = {"ready": True, "protocol": "rlctl.worker/v1"}
    else:
        answer = {"id": asked["id"]}
        try:
            answer["allowed"] = check(redis, rule, asked["key"], asked["cost"])
        except OSError as error:
            answer["error"] = str(error)
            redis = Redis(rule["redis"], rule["timeout_ms"])
    print(json.dumps(answer), flush=True)
