"""A virtual machine with four RDMA devices in software (SoftRoCE), in which programs of this machine run as they are.

    python tests/verbs-vm/vm.py COMMAND ...      runs one command there

Most machines, and most containers, have neither an RDMA device nor kernel modules that play one. QEMU without
acceleration boots a Debian kernel that has them in a few seconds; it mounts this machine's root read-only, so
that nothing has to be installed inside. Kernel and initrd are made once and kept in the user's cache."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
# In this order; what they need is loaded before them.
MODULES = ["virtio_pci", "9pnet_virtio", "9p", "overlay", "veth", "bridge", "crc32_generic", "crc32_pclmul",
           "ib_uverbs", "rdma_ucm", "ib_umad", "rdma_rxe"]
# Programs, and the Debian packages that have them.
TOOLS = {"qemu-system-x86_64": "qemu-system-x86", "busybox": "busybox-static", "cpio": "cpio", "modprobe": "kmod",
         "depmod": "kmod", "rdma": "iproute2", "ip": "iproute2", "ibv_devices": "ibverbs-utils", "dpkg-deb": "dpkg"}
KERNEL = re.compile(r"linux-image-(\d+)\.(\d+)\.(\d+)-(\d+)-amd64")  # not -cloud-amd64: it lacks rdma_rxe and 9p
MEMORY_MB = 2048
BOOT_LIMIT_S = 60


class Unavailable(Exception):
    """There can be no such machine here; the message says why."""


@dataclass
class Result:
    """What a command came to. `status` is None when it did not end."""

    status: int | None
    text: str


def _find(tool: str) -> str:
    path = shutil.which(tool, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if path is None:
        raise Unavailable(f"{tool} is not installed (Debian package {TOOLS[tool]}, tools/packages.txt)")
    return path


def _call(command: list[str], what: str, cwd: Path | None = None, limit_s: float = 300) -> str:
    try:
        answer = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=limit_s,
                                stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"cannot {what}: {error}") from None
    if answer.returncode != 0:
        said = (answer.stderr or answer.stdout).strip().splitlines()
        raise Unavailable(f"cannot {what}: {said[-1] if said else f'exit status {answer.returncode}'}")
    return answer.stdout


# ---- kernel and initrd -----------------------------------------------------------------------------


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "tutti" / "verbs-vm"


def _kernel_package() -> str:
    """The newest kernel package that the distribution offers."""
    if os.uname().machine != "x86_64":
        raise Unavailable("the machine with verbs is described for x86-64 only")
    names = _call(["apt-cache", "pkgnames", "linux-image-"], "ask for kernel packages").split()
    versions = sorted((tuple(map(int, match.groups())), name) for name in names if (match := KERNEL.fullmatch(name)))
    if not versions:
        raise Unavailable("the distribution offers no linux-image-*-amd64 with SoftRoCE (apt-get update?)")
    return versions[-1][1]


def _unpacked_kernel() -> Path:
    """The folder with an unpacked kernel package; downloads it the first time."""
    cache = _cache()
    kept = sorted(cache.glob("linux-image-*/boot/vmlinuz-*"))
    if kept:
        return kept[-1].parent.parent
    package = _kernel_package()
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        _call(["apt-get", "-o", "Acquire::Retries=3", "-o", "APT::Sandbox::User=root", "download", package],
              f"download {package}", cwd=Path(scratch))
        archive = next(Path(scratch).glob("*.deb"))
        unpacked = Path(scratch) / "unpacked"
        _call([_find("dpkg-deb"), "-x", str(archive), str(unpacked)], f"unpack {package}")
        version = package.removeprefix("linux-image-")
        _call([_find("depmod"), "-b", str(unpacked), version], "list the kernel's modules")
        if not (cache / package).exists():
            unpacked.rename(cache / package)
    return cache / package


def _module_files(kernel: Path, version: str) -> list[Path]:
    """The modules' files, each after those that it needs; what the kernel has built in is left out."""
    files: list[Path] = []
    for module in MODULES:
        for line in _call([_find("modprobe"), "-d", str(kernel), "-S", version, "--show-depends", module],
                          f"find the module {module}").splitlines():
            words = line.split()
            if words and words[0] == "insmod" and Path(words[1]) not in files:
                files.append(Path(words[1]))
    return files


def _initrd(kernel: Path, version: str) -> Path:
    """A file system of busybox, the modules and the script `init`; made again when that changes."""
    script = (HERE / "init").read_bytes()
    key = hashlib.sha256(script + " ".join(MODULES).encode()).hexdigest()[:16]
    initrd = kernel / f"initrd-{key}"
    if initrd.exists():
        return initrd
    with tempfile.TemporaryDirectory(dir=kernel) as scratch:
        root = Path(scratch) / "root"
        for folder in ("bin", "modules", "proc", "sys", "dev", "host", "upper", "root"):
            (root / folder).mkdir(parents=True)
        shutil.copy(_find("busybox"), root / "bin" / "busybox")
        (root / "init").write_bytes(script)
        (root / "init").chmod(0o755)
        files = _module_files(kernel, version)
        for number, file in enumerate(files):
            shutil.copy(file, root / "modules" / f"{number:02d}-{file.name}")
        unfinished = Path(scratch) / "initrd"
        names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
        with unfinished.open("wb") as sink:
            done = subprocess.run([_find("cpio"), "-o", "-H", "newc", "--quiet"], cwd=root, input=names.encode(),
                                  stdout=sink, stderr=subprocess.PIPE, check=False)
        if done.returncode != 0:
            raise Unavailable(f"cannot make the initrd: {done.stderr.decode().strip()}")
        unfinished.rename(initrd)
    return initrd


# ---- running ---------------------------------------------------------------------------------------


def prepare() -> tuple[Path, Path]:
    """Kernel and initrd. Raises Unavailable."""
    for tool in TOOLS:
        _find(tool)
    kernel = _unpacked_kernel()
    image = next((kernel / "boot").glob("vmlinuz-*"))
    return image, _initrd(kernel, image.name.removeprefix("vmlinuz-"))


def run(commands: list[list[str]], limit_s: float) -> list[Result]:
    """Boots, runs the commands one after the other (each at most so long, as root, in this folder and with this
    PATH) and powers off. Raises Unavailable."""
    image, initrd = prepare()
    with tempfile.TemporaryDirectory(prefix="tutti-vm-") as shared:
        folder = Path(shared)
        shutil.copy(HERE / "devices", folder / "devices")
        lines = ["export " + " ".join(f"{name}={shlex.quote(value)}" for name, value in _environment().items()),
                 f"cd {shlex.quote(str(Path.cwd()))}"]
        for number, command in enumerate(commands):
            lines.append(f"timeout -k 5 {limit_s:g} {shlex.join(command)} > /results/{number}.out 2>&1 < /dev/null; "
                         f"echo $? > /results/{number}.status")
        (folder / "commands").write_text("\n".join(lines) + "\n")
        said = _boot(image, initrd, folder, BOOT_LIMIT_S + len(commands) * (limit_s + 5))
        if not (folder / "booted").exists():
            raise Unavailable("the virtual machine did not come up: " + " / ".join(said.strip().splitlines()[-3:]))
        return [_result(folder, number) for number in range(len(commands))]


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name.startswith(("TUTTI_", "GTEST_"))}
    return {"PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin", "HOME": "/root", **kept}


# Without ERMS, because the kernel's memcpy would then move bytes one by one, and with it SoftRoCE: an RDMA device
# writes an aligned word whole.
def _boot(image: Path, initrd: Path, shared: Path, limit_s: float) -> str:
    command = [
        _find("qemu-system-x86_64"), "-accel", "tcg,thread=multi", "-cpu", "max,erms=off,fsrm=off", "-M", "q35",
        "-m", str(MEMORY_MB),
        "-smp", "2", "-nodefaults", "-no-user-config", "-nographic", "-no-reboot", "-kernel", str(image),
        "-initrd", str(initrd), "-append", "console=ttyS0 quiet panic=-1 no_timer_check mitigations=off random.trust_cpu=on",
        "-serial", "stdio", "-monitor", "none",
        "-virtfs", "local,path=/,mount_tag=hostroot,security_model=none,readonly=on,multidevs=remap",
        "-virtfs", f"local,path={shared},mount_tag=results,security_model=none"]
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              check=False, timeout=limit_s).stdout.decode(errors="replace")
    except subprocess.TimeoutExpired as expired:
        return (expired.stdout or b"").decode(errors="replace")


def _result(folder: Path, number: int) -> Result:
    out, status = folder / f"{number}.out", folder / f"{number}.status"
    text = out.read_text(errors="replace") if out.exists() else ""
    word = status.read_text().strip() if status.exists() else ""
    return Result(int(word) if word.isdigit() else None, text)


if __name__ == "__main__":
    try:
        answer = run([sys.argv[1:]], 200)[0]
    except Unavailable as reason:
        sys.exit(f"no virtual machine: {reason}")
    print(answer.text, end="")
    sys.exit(1 if answer.status is None else answer.status)
