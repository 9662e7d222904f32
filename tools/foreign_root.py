"""A bare root of another processor's files, whose programs an emulator runs (qemu-user-static).

The kernel starts the emulator by itself. It is registered (binfmt_misc) in the root's own user namespace: nothing of that is
seen outside, and no privileges are needed; Linux can do so since 6.7."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import cross
from bare_root import MOUNT, BareRoot

C_LIBRARY = ("libc6", "libgcc-s1")
PYTHON_NEEDS = ("libbz2-1.0", "libcrypt1", "libexpat1", "libffi8", "liblzma5", "libsqlite3-0", "libssl3", "libuuid1", "zlib1g")
MACHINES = {"x86_64": 0x3e, "aarch64": 0xb7}  # of ELF headers
FORMATS = '"$0/proc/sys/fs/binfmt_misc'
REGISTER = f"mount -t binfmt_misc none {FORMATS}\" && printf %s '{{rule}}' > {FORMATS}/register\""


class ForeignRoot(BareRoot):
    """One such root, in a folder of its own."""

    def __init__(self, folder: Path, processor: cross.Processor) -> None:
        """Makes it of Debian's packages. Raises StepFailed where they cannot be had."""
        self.folder = folder
        self.version = debian_python(processor)
        self.python = Path(f"/usr/bin/python{self.version}")
        self.mount = f"{MOUNT} && {REGISTER.format(rule=rule_for(processor))}"
        python = tuple(name.format(self.version) for name in
                       ("python{}", "python{}-minimal", "libpython{}-minimal", "libpython{}-stdlib"))
        packages = processor.folder / "python"
        cross.unpack(processor, C_LIBRARY + python + PYTHON_NEEDS, packages)
        shutil.copytree(packages / "usr", folder / "usr", symlinks=True, ignore=shutil.ignore_patterns("doc", "man", "locale"))
        shutil.copytree(packages / "lib", folder / "usr" / "lib", symlinks=True, dirs_exist_ok=True)
        for name in ("proc", "dev", "etc", "tmp", "root"):
            (folder / name).mkdir()
        for name in ("lib", "bin"):
            (folder / name).symlink_to(f"usr/{name}")
        (folder / "etc" / "passwd").write_text("root:x:0:0:root:/root:/usr/bin/false\n")
        (folder / "etc" / "hosts").write_text("127.0.0.1 localhost\n")


def emulator(processor: cross.Processor) -> str | None:
    """Its path, or None."""
    return shutil.which(f"qemu-{processor.name}-static")


def debian_python(processor: cross.Processor) -> str:
    """The version that Debian has for that processor, as in python3.11."""
    apt = ["apt-cache", *cross.private_apt(processor)[2:], "show", "python3"]
    said = subprocess.run(apt, capture_output=True, text=True, check=False).stdout
    found = re.search(r"^Version: (\d+\.\d+)", said, re.MULTILINE)
    if found is None:
        raise cross.StepFailed(f"no package python3 for {processor.name}")
    return found[1]


def rule_for(processor: cross.Processor) -> str:
    """What the kernel is told: which files these are (64-bit little-endian programs and libraries of that processor), and
    who runs them. F: the emulator is opened now, and need not be in the root."""
    machine = MACHINES[processor.name]
    magic = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00" + machine.to_bytes(2, "little")
    mask = b"\xff" * 7 + b"\x00" + b"\xff" * 8 + b"\xfe\xff\xff\xff"
    escaped = ["".join(f"\\x{byte:02x}" for byte in part) for part in (magic, mask)]
    return f":tutti:M::{escaped[0]}:{escaped[1]}:{emulator(processor)}:F"
