"""A limiter as many are written: read the count, compare, then count. Two requests can read the same count.

    rlctl race 'exec:python3 examples/workers/naive.py' --as fixed-window --procs 20 --limit 100
"""
from resp import serve


def check(redis, rule, request):
    key = "%s:{%s}:naive" % (rule["prefix"], request["key"])
    count = int(redis("GET", key) or 0)
    if request["cost"] > 0 and count + request["cost"] > rule["limit"]:
        return {"allowed": False}
    if request["cost"] > 0:
        redis("MULTI")
        redis("INCRBY", key, request["cost"])
        redis("PEXPIRE", key, rule["window_us"] // 1000, "NX")
        redis("EXEC")
    return {"allowed": True}


serve(check)
