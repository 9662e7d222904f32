"""Rank 1 sends 1 MiB to rank 0, which computes for 6 s before it receives with ROOM bytes; rank 2 waits for rank 1:
`head.py FOLDER ROOM`. What a rank was told is in FOLDER/RANK: "told TEXT", or "got it", all or a part."""

import os
import sys
import time
from pathlib import Path

import numpy
from mpi4py import MPI

comm = MPI.COMM_WORLD
comm.Set_errhandler(MPI.ERRORS_RETURN)
folder = Path(sys.argv[1])
room = numpy.zeros(int(sys.argv[2]), "b")
for _ in range(2):  # from the second on ranks know each other
    for other in {0, 1, 2} - {comm.rank}:
        comm.Sendrecv(numpy.zeros(1), other, recvbuf=numpy.zeros(1), source=other)
comm.Barrier()
if comm.rank == 1:
    (folder / "ready").touch()
    comm.Send(numpy.zeros(1 << 20, "b"), 0)
    time.sleep(60)
began = time.monotonic()
while comm.rank == 0 and time.monotonic() - began < 6:
    pass
try:
    comm.Recv(room, 1)
    said = "got it"
except MPI.Exception as error:
    said = "got it" if error.Get_error_class() == MPI.ERR_TRUNCATE else f"told {error.Get_error_string()}"
(folder / f".{comm.rank}").write_text(said)
os.rename(folder / f".{comm.rank}", folder / str(comm.rank))
os._exit(3)
