"""Which MPI a program will load: the dynamic loader's search, without running anything."""

from __future__ import annotations

from pathlib import Path

from tutti.launch.elf import Elf, read_elf
from tutti.launch.find import in_loader_cache
from tutti.launch.mpi_library import Abi, abi_of_library


def needed_mpi(path: Path, elf: Elf, library_path: str | None) -> tuple[Abi, str] | None:
    """The MPI library that a dynamically linked program loads at its start, directly or through
    other libraries: its ABI and its name. `library_path` is the LD_LIBRARY_PATH it will run with."""
    seen: set[str] = set()
    queue = [(path.resolve(), elf, [] if elf.runpath else elf.rpath)]
    while queue:
        file, headers, inherited = queue.pop(0)
        for name in headers.needed:
            if name in seen:
                continue
            seen.add(name)
            found = _find_library(name, file, headers, inherited, library_path)
            abi = abi_of_library(name, found)
            if abi is not None:
                return abi, name
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
