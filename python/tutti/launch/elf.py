"""What a program file is and which MPI it will load, without running it.

Only the parts of the ELF format that answer three questions: is it dynamically linked, which
libraries does it need, does it define MPI itself."""

from __future__ import annotations

import contextlib
import enum
import mmap
import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path

from tutti.launch.find import in_loader_cache
from tutti.launch.record import Record

PT_DYNAMIC, PT_INTERP = 2, 3
SHT_SYMTAB, SHT_DYNSYM = 2, 11
DT_NEEDED, DT_STRTAB, DT_RPATH, DT_RUNPATH = 1, 5, 15, 29
PT_LOAD = 1


class Abi(enum.Enum):
    """The binary interface of an MPI library: one plugin of tutti's each."""

    MPICH = "mpich"
    STANDARD = "abi"
    OPENMPI = "openmpi"

    @property
    def plugin(self) -> str:
        return f"libtutti-mpi-{self.value}.so"


# Sonames, and what they tell. libmpich.so.12 is Debian's name for MPICH.
_SONAMES = {
    "libmpi.so.12": Abi.MPICH,
    "libmpich.so.12": Abi.MPICH,
    "libmpi_abi.so.1": Abi.STANDARD,
    "libmpi_abi.so.0": Abi.STANDARD,
    "libmpi.so.40": Abi.OPENMPI,
}


class Elf(Record):
    """The headers of one ELF file."""

    interpreter: str | None = None
    needed: list[str] = []  # noqa: RUF012 (copied)
    rpath: list[str] = []  # noqa: RUF012
    runpath: list[str] = []  # noqa: RUF012


class _Reader:
    def __init__(self, data: mmap.mmap) -> None:
        if data[:4] != b"\x7fELF" or len(data) < 64:
            raise ValueError("not an ELF file")
        self.data = data
        self.wide = data[4] == 2
        self.order = "<" if data[5] == 1 else ">"

    def unpack(self, layout: str, offset: int) -> tuple[int, ...]:
        return struct.unpack_from(self.order + layout, self.data, offset)

    def text(self, offset: int) -> str:
        end = self.data.find(b"\0", offset)
        if end < 0:
            raise ValueError("a name without an end")
        return self.data[offset:end].decode(errors="replace")

    def segments(self) -> list[tuple[int, int, int, int]]:
        """(type, file offset, address, bytes in the file) of every program header."""
        if self.wide:
            start, size, count = *self.unpack("Q", 32), *self.unpack("HH", 54)
            rows = [self.unpack("IIQQQQ", start + i * size) for i in range(count)]
            return [(kind, offset, address, length) for kind, _, offset, address, _, length in rows]
        start, size, count = *self.unpack("I", 28), *self.unpack("HH", 42)
        rows = [self.unpack("IIIII", start + i * size) for i in range(count)]
        return [(kind, offset, address, length) for kind, offset, address, _, length in rows]

    def sections(self) -> list[tuple[int, int, int, int]]:
        """(type, file offset, bytes, link) of every section header."""
        if not self.wide:
            return []
        start, size, count = *self.unpack("Q", 40), *self.unpack("HH", 58)
        rows = [self.unpack("IIQQQQI", start + i * size) for i in range(count if start else 0)]
        return [(kind, offset, length, link) for _, kind, _, _, offset, length, link in rows]


@contextlib.contextmanager
def _open(path: Path) -> Iterator[_Reader]:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        yield _Reader(data)


def read_elf(path: Path) -> Elf | None:
    """The headers of `path`, or None when it is not an ELF file that can be read."""
    try:
        with _open(path) as reader:
            return _parse(reader)
    except (OSError, ValueError, struct.error, IndexError):
        return None


def defines_mpi(path: Path) -> bool:
    """Whether MPI is linked into the program: a symbol table of it defines MPI_Init. A stripped
    program tells nothing."""
    try:
        with _open(path) as reader:
            return _defines(reader, b"MPI_Init")
    except (OSError, ValueError, struct.error, IndexError):
        return False


def _parse(reader: _Reader) -> Elf:
    elf = Elf()
    segments = reader.segments()

    def file_offset(address: int) -> int:
        for kind, offset, start, length in segments:
            if kind == PT_LOAD and start <= address < start + length:
                return offset + address - start
        raise ValueError("an address outside the file")

    entries: list[tuple[int, int]] = []
    for kind, offset, _, length in segments:
        if kind == PT_INTERP:
            elf.interpreter = reader.text(offset)
        elif kind == PT_DYNAMIC:
            layout, step = ("qQ", 16) if reader.wide else ("iI", 8)
            for position in range(offset, offset + length, step):
                tag, value = reader.unpack(layout, position)
                if tag == 0:
                    break
                entries.append((tag, value))
    strings = next((value for tag, value in entries if tag == DT_STRTAB), None)
    if strings is not None:
        table = file_offset(strings)
        words = {tag: [reader.text(table + value) for t, value in entries if t == tag]
                 for tag in (DT_NEEDED, DT_RPATH, DT_RUNPATH)}
        elf.needed = words[DT_NEEDED]
        elf.rpath = ":".join(words[DT_RPATH]).split(":") if words[DT_RPATH] else []
        elf.runpath = ":".join(words[DT_RUNPATH]).split(":") if words[DT_RUNPATH] else []
    return elf


def _defines(reader: _Reader, name: bytes) -> bool:
    """Whether a symbol table of the file defines a function of this name."""
    sections = reader.sections()
    for kind, offset, length, link in sections:
        if kind not in (SHT_SYMTAB, SHT_DYNSYM) or link >= len(sections):
            continue
        start, size = sections[link][1:3]
        names = reader.data[start:start + size]
        # Linkers let a name be the tail of a longer one: MPI_Init may lie inside PMPI_Init.
        places = {match.start() for match in re.finditer(re.escape(name) + b"\0", names)}
        if not places:
            continue
        table = reader.data[offset:offset + length // 24 * 24]
        for symbol, info, _, section, _, _ in struct.iter_unpack(reader.order + "IBBHQQ", table):
            if symbol in places and section != 0 and info & 15 == 2:
                return True
    return False


def soname_abi(name: str) -> Abi | None:
    """The ABI that a library's file name stands for."""
    base = os.path.basename(name)
    for soname, abi in _SONAMES.items():
        if base == soname or base.startswith(soname + "."):
            return abi
    # Vendors' names of MPICH: libmpi_gnu_91.so.12, libmpi_intel.so.12, libmpi_cray.so.12.
    return Abi.MPICH if re.match(r"libmpi(ch)?_\w+\.so\.12(\.|$)", base) else None


def needed_mpi(path: Path, elf: Elf, library_path: str | None) -> tuple[Abi, str] | None:
    """The MPI library that a dynamically linked program loads at its start, directly or through
    other libraries: its ABI and its name. `library_path` is the LD_LIBRARY_PATH it will run with."""
    seen: set[str] = set()
    queue = [(path.resolve(), elf, [] if elf.runpath else elf.rpath)]
    while queue:
        file, headers, inherited = queue.pop(0)
        for name in headers.needed:
            abi = soname_abi(name)
            if abi is not None:
                return abi, name
            if name in seen:
                continue
            seen.add(name)
            found = _find_library(name, file, headers, inherited, library_path)
            child = read_elf(found) if found and not _is_system_library(name) else None
            if found and child:
                queue.append((found.resolve(), child, inherited + child.rpath))
    return None


def _is_system_library(name: str) -> bool:
    """Parts of the C library: they need no MPI, and need not be read."""
    return name.split(".so")[0] in ("libc", "libm", "libpthread", "libdl", "librt", "ld-linux-x86-64",
                                    "libgcc_s", "libstdc++", "libutil")


def _find_library(name: str, file: Path, elf: Elf, inherited: list[str],
                  library_path: str | None) -> Path | None:
    """The dynamic loader's search (ld.so(8)): DT_RPATH, LD_LIBRARY_PATH, DT_RUNPATH, cache."""
    if "/" in name:
        return Path(name) if Path(name).is_file() else None
    folders = [] if elf.runpath else [*elf.rpath, *inherited]
    folders += (library_path or "").split(":") + elf.runpath
    for folder in folders:
        expanded = folder.replace("${ORIGIN}", "$ORIGIN").replace("$ORIGIN", str(file.parent))
        if expanded and (Path(expanded) / name).is_file():
            return Path(expanded) / name
    cached = in_loader_cache(name)
    if cached:
        return Path(cached)
    for folder in ("/lib", "/usr/lib", "/lib64", "/usr/lib64"):
        if (Path(folder) / name).is_file():
            return Path(folder) / name
    return None
