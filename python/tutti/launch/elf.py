"""What a program file is, without running it.

Only the parts of the ELF format that answer these questions: is it dynamically linked, which libraries does it need, does
it define MPI itself. What a library exports: mpi_library.py."""

from __future__ import annotations

import contextlib
import mmap
import re
import struct
from collections.abc import Iterator
from pathlib import Path

from tutti.launch.record import Record

PT_LOAD, PT_DYNAMIC, PT_INTERP = 1, 2, 3
SHT_SYMTAB, SHT_DYNSYM = 2, 11
DT_NEEDED, DT_STRTAB, DT_RPATH, DT_RUNPATH = 1, 5, 15, 29


class Elf(Record):
    """The headers of one ELF file."""

    interpreter: str | None = None
    needed: list[str] = []  # noqa: RUF012 (copied)
    rpath: list[str] = []  # noqa: RUF012
    runpath: list[str] = []  # noqa: RUF012


class Reader:
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
def opened(path: Path) -> Iterator[Reader]:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        yield Reader(data)


def read_elf(path: Path) -> Elf | None:
    """The headers of `path`, or None when it is not an ELF file that can be read."""
    try:
        with opened(path) as reader:
            return _parse(reader)
    except (OSError, ValueError, struct.error, IndexError):
        return None


def defines_mpi(path: Path) -> bool:
    """Whether MPI is linked into the program: a symbol table of it defines MPI_Init. A stripped
    program tells nothing."""
    try:
        with opened(path) as reader:
            return _defines(reader, b"MPI_Init")
    except (OSError, ValueError, struct.error, IndexError):
        return False


class Dynamic:
    """The dynamic section of a file: its entries, and where addresses lie in the file."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.segments = reader.segments()
        self.entries: list[tuple[int, int]] = []
        for kind, offset, _, length in self.segments:
            if kind == PT_DYNAMIC:
                self._read(offset, length)

    def _read(self, offset: int, length: int) -> None:
        layout, step = ("qQ", 16) if self.reader.wide else ("iI", 8)
        for position in range(offset, offset + length, step):
            tag, value = self.reader.unpack(layout, position)
            if tag == 0:
                return
            self.entries.append((tag, value))

    def place(self, tag: int) -> int | None:
        """Where what the entry points to lies in the file."""
        address = next((value for entry, value in self.entries if entry == tag), None)
        if address is None:
            return None
        for kind, offset, start, length in self.segments:
            if kind == PT_LOAD and start <= address < start + length:
                return offset + address - start
        raise ValueError("an address outside the file")

    def texts(self, tag: int) -> list[str]:
        table = self.place(DT_STRTAB)
        return [] if table is None else [self.reader.text(table + value) for entry, value in self.entries if entry == tag]


def _parse(reader: Reader) -> Elf:
    elf = Elf()
    dynamic = Dynamic(reader)
    for kind, offset, _, _ in dynamic.segments:
        if kind == PT_INTERP:
            elf.interpreter = reader.text(offset)
    elf.needed = dynamic.texts(DT_NEEDED)
    elf.rpath, elf.runpath = (":".join(dynamic.texts(tag)).split(":") if dynamic.texts(tag) else []
                              for tag in (DT_RPATH, DT_RUNPATH))
    return elf


def _defines(reader: Reader, name: bytes) -> bool:
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
