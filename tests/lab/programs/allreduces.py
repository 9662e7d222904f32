"""Allreduces and broadcasts until one of them fails: `allreduces.py FOLDER`. What a rank has seen is in
FOLDER/RANK: "told SECONDS TEXT" after an error, "wrong" after a wrong result, "endless" when nothing happened."""

import os
import sys
import time
from pathlib import Path

import numpy
from mpi4py import MPI

LIMIT = 60
COUNTS = (1, 2000, 50000)
comm = MPI.COMM_WORLD
comm.Set_errhandler(MPI.ERRORS_RETURN)


def say(text):
    (Path(sys.argv[1]) / f".{comm.rank}").write_text(text)
    os.rename(Path(sys.argv[1]) / f".{comm.rank}", Path(sys.argv[1]) / str(comm.rank))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(3)


began = time.monotonic()
good = began
for i in range(10**9):
    if i == 20 and comm.rank == 0:
        (Path(sys.argv[1]) / "ready").touch()
    if time.monotonic() - began > LIMIT:
        say("endless")
    count = COUNTS[i % len(COUNTS)]
    total, message = numpy.zeros(count), numpy.full(count, float(i) if comm.rank == i % comm.size else -1.0)
    try:
        comm.Allreduce(numpy.full(count, float(comm.rank + i)), total)
        comm.Bcast(message, root=i % comm.size)
    except MPI.Exception as error:
        say(f"told {time.monotonic() - good:.1f} {error.Get_error_string()}")
    if not (total == comm.size * (comm.size - 1) / 2 + comm.size * i).all() or not (message == i).all():
        say("wrong")
    good = time.monotonic()
