"""Where programs and libraries lie: the searches of the shell and of the loader."""

from __future__ import annotations

import os
import struct


def which(word: str, path: str | None = None) -> str | None:
    """The executable file that a shell would start for this word; `path`: the PATH to search, this process's unless given."""
    if os.path.dirname(word):
        return word if _is_executable(word) else None
    for folder in (os.environ.get("PATH", os.defpath) if path is None else path).split(os.pathsep):
        file = os.path.join(folder or ".", word)
        if _is_executable(file):
            return file
    return None


def _is_executable(file: str) -> bool:
    return os.path.isfile(file) and os.access(file, os.X_OK)


_CACHE = "/etc/ld.so.cache"
_MAGIC = b"glibc-ld.so.cache1.1"
_ENTRY = struct.Struct("iIIIQ")


def in_loader_cache(name: str, file: str = _CACHE) -> str | None:
    """Where the loader's cache (ld.so.cache, as ldconfig writes it) says that the library is."""
    try:
        with open(file, "rb") as cache:
            data = cache.read()
        start = data.find(_MAGIC)  # an older table may come first; places are counted from the magic word
        if start < 0:
            return None
        count, = struct.unpack_from("I", data, start + len(_MAGIC))
        wanted = name.encode() + b"\0"
        for at in range(start + 48, start + 48 + count * _ENTRY.size, _ENTRY.size):
            _, key, value, _, _ = _ENTRY.unpack_from(data, at)
            if data.startswith(wanted, start + key):
                return data[start + value:data.index(b"\0", start + value)].decode()
    except (OSError, ValueError, struct.error):
        pass
    return None
