"""Allreduces and broadcasts, or messages of BYTES around a ring, until one of them fails:
`endless.py FOLDER [BYTES [blocking]]`. What a rank has seen is in FOLDER/RANK: "told SECONDS TEXT" after an error,
"wrong" after a wrong result, "endless" when nothing happened."""

import os
import sys
import time
from pathlib import Path

import numpy
from mpi4py import MPI

LIMIT = 60
COUNTS = (1, 2000, 50000)
WORDS, BLOCKING = int(sys.argv[2]) // 8 if sys.argv[2:] else 0, sys.argv[3:] == ["blocking"]
comm = MPI.COMM_WORLD
comm.Set_errhandler(MPI.ERRORS_RETURN)


def say(text):
    (Path(sys.argv[1]) / f".{comm.rank}").write_text(text)
    os.rename(Path(sys.argv[1]) / f".{comm.rank}", Path(sys.argv[1]) / str(comm.rank))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(3)


def collectives(i):
    count = COUNTS[i % len(COUNTS)]
    total, message = numpy.zeros(count), numpy.full(count, float(i) if comm.rank == i % comm.size else -1.0)
    comm.Allreduce(numpy.full(count, float(comm.rank + i)), total)
    comm.Bcast(message, root=i % comm.size)
    return (total == comm.size * (comm.size - 1) / 2 + comm.size * i).all() and (message == i).all()


def messages(i):
    out, into = numpy.full(WORDS, float(comm.rank + i)), numpy.zeros(WORDS)
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    if BLOCKING:
        comm.Sendrecv(out, after, recvbuf=into, source=before)
    else:
        MPI.Request.Waitall([comm.Irecv(into, before), comm.Isend(out, after)])
    return (into == before + i).all()


began = time.monotonic()
good = began
for i in range(10**9):
    if i == 20 and comm.rank == 0:
        (Path(sys.argv[1]) / "ready").touch()
    if time.monotonic() - began > LIMIT:
        say("endless")
    try:
        if not (messages(i) if WORDS else collectives(i)):
            say("wrong")
    except MPI.Exception as error:
        say(f"told {time.monotonic() - good:.1f} {error.Get_error_string()}")
    good = time.monotonic()
