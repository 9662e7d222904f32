"""Which MPI a library is, by what it exports. The same rules as in src/mpi/preload/library.c, which has the last word."""

from __future__ import annotations

import enum
import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path

from tutti.launch.elf import DT_STRTAB, Dynamic, Reader, opened

DT_HASH, DT_SYMTAB, DT_SONAME, DT_GNU_HASH = 4, 6, 14, 0x6ffffef5
SYMBOL_BYTES = 24


class Abi(enum.Enum):
    """The binary interface of an MPI library: one plugin of tutti's each."""

    MPICH = "mpich"
    STANDARD = "abi"
    OPENMPI = "openmpi"

    @property
    def plugin(self) -> str:
        return f"libtutti-mpi-{self.value}.so"


# What the names tell of libraries that are not on this machine. libmpich.so.12 is Debian's name for MPICH.
_SONAMES = {
    "libmpi.so.12": Abi.MPICH,
    "libmpich.so.12": Abi.MPICH,
    "libmpi_abi.so.1": Abi.STANDARD,
    "libmpi_abi.so.0": Abi.STANDARD,
    "libmpi.so.40": Abi.OPENMPI,
}


def abi_of_library(name: str, found: Path | None) -> Abi | None:
    """The ABI of a library that a program needs, where it is an MPI: by its exports, or where it is not on this machine by
    its name."""
    if found is None:
        return soname_abi(name)
    return library_abi(found) if "mpi" in os.path.basename(name) else None


def soname_abi(name: str) -> Abi | None:
    """The ABI that the name of a library stands for."""
    base = os.path.basename(name)
    for soname, abi in _SONAMES.items():
        if base == soname or base.startswith(soname + "."):
            return abi
    # Cray's names of MPICH, and the like: libmpi_gnu_91.so.12, libmpi_intel.so.12, libmpi_cray.so.12.
    return Abi.MPICH if re.match(r"libmpi(ch)?_\w+\.so\.12(\.|$)", base) else None


def library_abi(path: Path) -> Abi | None:
    """The ABI of a library, by what it exports: vendors rename MPICH (libmpi_cray.so.12), and old releases of Open MPI
    share a name with it."""
    try:
        with opened(path) as reader:
            return _abi_of(Dynamic(reader), path.name) if reader.wide else None
    except (OSError, ValueError, struct.error, IndexError):
        return None


def _abi_of(dynamic: Dynamic, file_name: str) -> Abi | None:
    name = (dynamic.texts(DT_SONAME) or [file_name])[0]
    if _exports(dynamic, b"ompi_mpi_comm_world"):
        other = name.startswith("libmpi.so.") and not name.startswith("libmpi.so.40")
        return None if other else Abi.OPENMPI
    if _exports(dynamic, b"MPIR_Dup_fn"):  # since MPICH 3.1, or since 3.2 by any name
        return Abi.MPICH if ".so.12" in name or _exports(dynamic, b"PMPI_Aint_add") else None
    if _exports(dynamic, b"PMPI_Abi_get_version") or (name.startswith("libmpi_abi.so.") and _exports(dynamic, b"PMPI_Init")):
        return Abi.STANDARD
    return None


def _exports(dynamic: Dynamic, name: bytes) -> bool:
    """Whether the file exports a symbol, by its hash table: a lookup costs the same in a library of ten thousand."""
    symbols, texts, table = (dynamic.place(tag) for tag in (DT_SYMTAB, DT_STRTAB, DT_GNU_HASH))
    if symbols is None or texts is None:
        return False
    if table is not None:
        candidates = _gnu_candidates(dynamic.reader, table, name)
    else:
        table = dynamic.place(DT_HASH)
        candidates = iter(()) if table is None else _old_candidates(dynamic.reader, table, name)
    data = dynamic.reader.data
    for index in candidates:
        text, _, _, section = dynamic.reader.unpack("IBBH", symbols + index * SYMBOL_BYTES)
        if section != 0 and data[texts + text:texts + text + len(name) + 1] == name + b"\0":
            return True
    return False


def _gnu_candidates(reader: Reader, table: int, name: bytes) -> Iterator[int]:
    """Symbols in the name's chain of DT_GNU_HASH whose hash, but for the lowest bit, is the name's."""
    wanted = 5381
    for byte in name:
        wanted = (wanted * 33 + byte) & 0xffffffff
    buckets, first, words, _ = reader.unpack("IIII", table)
    chains = table + 16 + 8 * words + 4 * buckets
    index, = reader.unpack("I", table + 16 + 8 * words + 4 * (wanted % buckets))
    while index >= first:
        found, = reader.unpack("I", chains + 4 * (index - first))
        if found | 1 == wanted | 1:
            yield index
        if found & 1:
            return
        index += 1


def _old_candidates(reader: Reader, table: int, name: bytes) -> Iterator[int]:
    """Symbols in the name's chain of DT_HASH."""
    wanted = 0
    for byte in name:
        wanted = (wanted << 4) + byte
        high = wanted & 0xf0000000
        wanted = (wanted ^ (high >> 24)) & ~high & 0xffffffff
    buckets, count = reader.unpack("II", table)
    index, = reader.unpack("I", table + 8 + 4 * (wanted % buckets))
    for _ in range(min(count, len(reader.data) // 4)):  # a damaged chain may be a ring
        if index == 0:
            return
        yield index
        index, = reader.unpack("I", table + 8 + 4 * buckets + 4 * index)
