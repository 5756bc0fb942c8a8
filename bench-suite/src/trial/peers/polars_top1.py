import json
import sys
import time

import polars as pl

rows = pl.read_ipc(sys.argv[1]).rechunk()


def winners():
    best = pl.col("v").arg_max()
    return rows.group_by("k").agg(pl.col("v").max(), pl.col("p").get(best))


result = winners()
nanos = []
for _ in range(int(sys.argv[2])):
    start = time.perf_counter_ns()
    result = winners()
    nanos.append(time.perf_counter_ns() - start)
print(json.dumps({"nanos": nanos, "keys": result.height, "sum": result["v"].sum()}))
