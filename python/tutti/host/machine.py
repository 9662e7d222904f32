"""What the machine has and permits: processors, memory limits, cross-memory attach."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import socket
import struct
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Cpus:
    """Processors, counted as the operating system does (hardware threads)."""

    model: str
    online: int
    allowed: int          # by affinity
    quota: float | None   # by cgroup; None: no limit
    cores: int
    sockets: int
    numa_nodes: int

    @property
    def usable(self) -> int:
        return max(1, min(self.allowed, int(self.quota) if self.quota else self.allowed))


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def cgroup_quota() -> float | None:
    """Processors that the control group grants, version 2 or 1; None without a limit."""
    group = next((line.split("::")[1] for line in _read("/proc/self/cgroup").splitlines()
                  if line.startswith("0::")), "/")
    for folder in (f"/sys/fs/cgroup{group}", "/sys/fs/cgroup"):
        words = _read(f"{folder}/cpu.max").split()
        if len(words) == 2:
            return None if words[0] == "max" else int(words[0]) / int(words[1])
    quota, period = (_read(f"/sys/fs/cgroup/cpu/cpu.cfs_{name}_us") for name in ("quota", "period"))
    return int(quota) / int(period) if quota and period and int(quota) > 0 else None


def cpus() -> Cpus:
    model = next((line.split(":", 1)[1].strip() for line in _read("/proc/cpuinfo").splitlines()
                  if line.startswith(("model name", "Hardware"))), os.uname().machine)
    cores, sockets = set(), set()
    for folder in Path("/sys/devices/system/cpu").glob("cpu[0-9]*/topology"):
        package = _read(f"{folder}/physical_package_id")
        sockets.add(package)
        cores.add((package, _read(f"{folder}/core_id")))
    nodes = len(list(Path("/sys/devices/system/node").glob("node[0-9]*")))
    return Cpus(model, os.cpu_count() or 1, len(os.sched_getaffinity(0)), cgroup_quota(),
                len(cores) or 1, len(sockets) or 1, nodes or 1)


def memory_lock_limit() -> int | None:
    """Bytes that may be locked in memory (and so registered with a network); None: no limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return None if soft == resource.RLIM_INFINITY else soft


class _IoVec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


def cma_permitted() -> tuple[bool, str]:
    """Whether a process may read another one's memory (process_vm_readv), tried on a child; and what
    the kernel said where it may not."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "process_vm_readv"):
        return False, "this C library has no process_vm_readv"
    source = ctypes.create_string_buffer(b"tutti")
    target = ctypes.create_string_buffer(len(source))
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # a sibling, as ranks are: it reads, the parent is read
        local = _IoVec(ctypes.addressof(target), len(source))
        remote = _IoVec(ctypes.addressof(source), len(source))
        count = libc.process_vm_readv(os.getppid(), ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)
        error = ctypes.get_errno()
        os.write(writing, bytes([0 if count == len(source) else error or 255]))
        os._exit(0)
    os.close(writing)
    answer = os.read(reading, 1)
    os.close(reading)
    os.waitpid(child, 0)
    if answer == b"\0":
        return True, ""
    error = os.strerror(answer[0]) if answer else signal.strsignal(signal.SIGKILL) or "no answer"
    scope = _read("/proc/sys/kernel/yama/ptrace_scope")
    return False, error + (f" (kernel.yama.ptrace_scope is {scope}; 0 permits it)" if scope not in ("", "0") else "")


def sessions_apart(root: Path = Path("/")) -> bool:
    """Whether the kernel gives each session a share of the processors of its own (autogroup), so that processes of different
    sessions hardly give way to each other. Not where a control group divides the processors instead. `root`: of /proc, /sys."""
    if _read(f"{root}/proc/sys/kernel/sched_autogroup_enabled") != "1":
        return False
    for line in _read(f"{root}/proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        if "cpu" in controllers.split(",") and group != "/":
            return False
        folders = [Path(group), *Path(group).parents] if not controllers else []
        if any((root / "sys/fs/cgroup" / str(folder).lstrip("/") / "cpu.weight").exists() for folder in folders):
            return False
    return True


def shared_memory() -> tuple[int, int] | None:
    """(bytes in all, bytes free) of /dev/shm, or None where there is none."""
    try:
        state = os.statvfs("/dev/shm")
    except OSError:
        return None
    return state.f_frsize * state.f_blocks, state.f_frsize * state.f_bavail


@dataclass(frozen=True)
class Multicast:
    """IP multicast as this machine alone can tell: whether it reaches other nodes is tried when a job starts."""

    interface: str | None  # the one that jobs take, unless TUTTI_NET_INTERFACE names another
    reason: str            # why there is none, or ""
    receive_buffer: int    # most that a socket gets without privileges


def multicast(wanted: str = "") -> Multicast:
    """The first interface that is up, is not the loopback and takes multicast; and that a group can be joined there."""
    up, loopback, takes = 0x1, 0x8, 0x1000
    with contextlib.suppress(OSError, ValueError):
        buffer = int(Path("/proc/sys/net/core/rmem_max").read_text())
        for _, name in sorted(socket.if_nameindex()):
            flags = int(Path(f"/sys/class/net/{name}/flags").read_text(), 16)
            if name != wanted if wanted else not flags & up or flags & loopback or not flags & takes:
                continue
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as member:
                group = struct.pack("=4s4si", socket.inet_aton("239.192.0.1"), b"\0" * 4, socket.if_nametoindex(name))
                try:
                    member.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group)
                except OSError as error:
                    return Multicast(None, f"{name} refuses a group: {error.strerror}", buffer)
            return Multicast(name, "", buffer)
        return Multicast(None, f"no interface {wanted}" if wanted else "no interface is up that takes multicast", buffer)
    return Multicast(None, "the interfaces cannot be listed", 0)
