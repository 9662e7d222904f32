"""A root with nothing in it but a Python and the C library, for trying what is installed there: no compiler, no packages
of the system, no C++ library. Made of this machine's own files, or for another processor of Debian's packages
(foreign_root.py); entered by namespaces, so that no privileges are needed where the kernel lets users make them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

# Parts of the C library that programs open by name, or that older programs still name; and what the wheels of others
# may take for granted (pydantic, which the option parser needs).
OF_THE_C_LIBRARY = ("libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1",
                    "libresolv.so.2", "libnss_files.so.2", "libnss_dns.so.2", "libgcc_s.so.1")
NOT_NEEDED = ("test", "idlelib", "tkinter", "lib2to3", "turtledemo", "site-packages", "dist-packages", "__pycache__")
MOUNT = 'mount --rbind /dev "$0/dev" && mount -t proc proc "$0/proc"'
ENTER = 'exec chroot "$0" "$@"'


class BareRoot:
    """One such root, in a folder of its own."""

    mount = MOUNT  # what is done before it is entered; $0 is its folder

    def __init__(self, folder: Path) -> None:
        """Makes it, with the interpreter behind the one that runs this."""
        self.folder = folder
        self.python = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
        for name in ("usr/lib", "usr/lib64", "usr/bin", "proc", "dev", "etc", "tmp", "root"):
            (folder / name).mkdir(parents=True)
        for name in ("lib", "lib64", "bin"):
            (folder / name).symlink_to(f"usr/{name}")
        (folder / "etc" / "passwd").write_text("root:x:0:0:root:/root:/usr/bin/false\n")
        (folder / "etc" / "hosts").write_text("127.0.0.1 localhost\n")
        self._copy_python()

    def _copy_python(self) -> None:
        library = Path(sys.base_prefix) / "lib" / self.python.name
        shutil.copytree(library, self._inside(library), ignore=shutil.ignore_patterns(*NOT_NEEDED, "config-*"),
                        ignore_dangling_symlinks=True)
        wheels = Path("/usr/share/python-wheels")  # where Debian keeps what ensurepip installs
        if wheels.is_dir():
            shutil.copytree(wheels, self._inside(wheels))
        self.add(self.python, self.python)
        for module in [self.python, *library.glob("lib-dynload/*.so")]:
            for needed in _needs(module):
                self.add(needed, needed)
        for name in OF_THE_C_LIBRARY:
            file = _c_library_folder() / name
            if file.exists():
                self.add(file, file)

    def _inside(self, path: Path) -> Path:
        """Where a path of the root lies here; /lib and its like are links into /usr."""
        parts = path.parts[1:]
        usr = ("usr",) if parts[0] in ("lib", "lib64", "bin") else ()
        return self.folder.joinpath(*usr, *parts)

    def add(self, file: Path, place: Path) -> None:
        """Copies a file of this machine to `place` in the root."""
        target = self._inside(place)
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)

    def command(self, words: list[str], path: str = "/usr/bin") -> list[str]:
        """What runs these words in the root, with nothing of this environment."""
        return ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child",
                "env", "-i", f"PATH={path}:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root",
                "sh", "-c", f"{self.mount} && {ENTER}", str(self.folder), *words]

    def run(self, words: list[str], path: str = "/usr/bin", timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """Runs them to their end."""
        return subprocess.run(self.command(words, path), capture_output=True, text=True, errors="replace",
                              stdin=subprocess.DEVNULL, timeout=timeout, check=False)


def reason_against() -> str | None:
    """Why this machine cannot enter such a root, or None."""
    tried = subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "sh", "-c",
                            "mount -t proc proc /proc"], capture_output=True, text=True, check=False)
    return None if tried.returncode == 0 else f"no namespaces for users here ({tried.stderr.strip()})"


def _needs(file: Path) -> list[Path]:
    """The shared libraries that the loader would find for a file, the loader among them."""
    said = subprocess.run(["ldd", file], capture_output=True, text=True, check=False).stdout
    return [Path(found) for found in re.findall(r"(/\S+) \(0x", said)]


def _c_library_folder() -> Path:
    return next(path.parent for path in _needs(Path(sys.executable)) if path.name == "libc.so.6")
