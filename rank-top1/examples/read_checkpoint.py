"""Reads a canonical checkpoint as a table, with nothing but pyarrow (pip install pyarrow).

A section is an Arrow IPC stream in the file that the manifest names by its SHA-256.
"""

import json
import pathlib
import sys

import pyarrow as pa

directory = pathlib.Path(sys.argv[1])
newest = max(directory.glob("*.manifest"))
header, body = newest.read_bytes().split(b"\n", 1)
manifest = json.loads(body)
data = directory / "files" / manifest["files"][0]["sha256"]

tables = []
with data.open("rb") as file:
    for section in manifest["sections"]:
        file.seek(section["offset"])
        stream = pa.BufferReader(file.read(section["bytes"]))
        tables.append(pa.ipc.open_stream(stream).read_all())
table = pa.concat_tables(tables)
print(table.to_pylist())
