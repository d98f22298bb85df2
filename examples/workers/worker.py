"""rlctl's own scripts from Python: one call of a script decides, and tells all.

    rlctl race 'exec:python3 examples/workers/worker.py' sliding-log --procs 20 --limit 100
"""
import hashlib
import pathlib

from resp import RedisError, serve

SCRIPTS = pathlib.Path(__file__).parents[2] / "scripts"


def check(redis, rule, request):
    source = (SCRIPTS / (rule["limiter"] + ".lua")).read_text()
    client = request["key"].replace("%", "%25").replace("}", "%7D")
    key = "%s:{%s}:%s" % (rule["prefix"], client, rule["limiter"])
    words = ["1", key, rule["limit"], rule["window_us"], rule["burst"], request["cost"], request["request"], 0]
    try:
        reply = redis("EVALSHA", hashlib.sha1(source.encode()).hexdigest(), *words)
    except RedisError as error:
        if not str(error).startswith("NOSCRIPT"):
            raise
        reply = redis("EVAL", source, *words)
    names = ["allowed", "remaining", "retry_after_us", "reset_after_us", "now_us"]
    return dict(zip(names, reply), allowed=reply[0] == 1)


serve(check)
