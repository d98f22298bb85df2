"""The little of Redis's protocol that the workers here need, and the loop that they share. Standard library only."""
import json
import socket
import sys
from urllib.parse import parse_qs, unquote, urlparse


class RedisError(Exception):
    """What Redis said in place of an answer."""


class Redis:
    def __init__(self, url, timeout_ms=0):
        at = urlparse(url)
        unix = at.scheme == "unix"
        self.socket = socket.socket(socket.AF_UNIX if unix else socket.AF_INET)
        self.socket.settimeout(timeout_ms / 1000 or None)
        self.socket.connect(unquote(at.path) if unix else (at.hostname, at.port))
        self.file = self.socket.makefile("rb")
        if at.password:
            self("AUTH", *filter(None, [at.username]), unquote(at.password))
        db = parse_qs(at.query).get("db", ["0"])[0] if unix else at.path.strip("/") or "0"
        if db != "0":
            self("SELECT", db)

    def __call__(self, *words):
        text = b"*%d\r\n" % len(words)
        for word in words:
            word = str(word).encode()
            text += b"$%d\r\n%s\r\n" % (len(word), word)
        self.socket.sendall(text)
        return self.reply()

    def reply(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise OSError("the connection to Redis ended")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise RedisError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        return rest.decode()


def serve(check):
    """Answers rlctl: check(redis, rule, request) returns the fields of an answer."""
    redis, rule = None, None
    for line in sys.stdin:
        request = json.loads(line)
        if "open" in request:
            if rule is None or rule["redis"] != request["open"]["redis"]:
                redis = None
            rule, answer = request["open"], {"ready": True, "protocol": "rlctl.worker/v1"}
        else:
            answer = {"id": request["id"]}
            try:
                redis = redis or Redis(rule["redis"], rule["timeout_ms"])
                answer.update(check(redis, rule, request))
            except RedisError as error:  # refused; whether an earlier command had counted is not known here
                answer["error"] = str(error)
            except OSError as error:  # what comes on this connection may be the answer to something else
                answer["error"], answer["counted"] = str(error) or type(error).__name__, redis is not None
                redis = None
        print(json.dumps(answer), flush=True)
