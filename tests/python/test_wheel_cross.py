"""Wheels for other processors and for an older C library (make wheel ARCH=...): each used in a root of that processor's own
files that holds Python alone. For another processor than this machine's an emulator runs them."""

from __future__ import annotations

import platform
import re
import sys

import pytest
import wheels
from conftest import ROOT

sys.path.insert(0, str(ROOT / "tools"))
import bare_root  # noqa: E402
import cross  # noqa: E402
import foreign_root  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
GLIBC = tuple(map(int, cross.GLIBC.split(".")))
WAIT = 400  # seconds for one command: an emulated start of Python takes some


def glibc_of(wheel, processor) -> tuple[int, ...]:
    """The oldest that it runs on there, as (2, 28); one that is newer than any where it does not run there."""
    tag = re.search(rf"manylinux_(\d+)_(\d+)_{processor.name}\b", wheel.name)
    return tuple(map(int, tag.groups())) if tag else (sys.maxsize,)


@pytest.fixture(scope="module", params=sorted(cross.PROCESSORS))
def processor(request):
    return cross.PROCESSORS[request.param]


@pytest.fixture(scope="module")
def wheel(processor):
    """The newest one in dist that an old C library is enough for. It takes minutes to build, so it is not built here."""
    found = sorted((file for file in (ROOT / "dist").glob("*.whl") if glibc_of(file, processor) <= GLIBC),
                   key=lambda path: path.stat().st_mtime)
    if not found:
        pytest.skip(f"no wheel in dist (make wheel ARCH={processor.name} builds one)")
    return found[-1]


@pytest.fixture(scope="module")
def root(processor, wheel, tmp_path_factory):
    reason = bare_root.reason_against()
    if reason:
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp(processor.name) / "root"
    if processor.name == platform.machine():
        root, version = bare_root.BareRoot(folder), f"{sys.version_info.major}.{sys.version_info.minor}"
    else:
        if foreign_root.emulator(processor) is None:
            pytest.skip(f"no emulator of {processor.name} (Debian: qemu-user-static)")
        folder.mkdir()
        root = foreign_root.ForeignRoot(folder, processor)
        version = root.version
    if f"-cp{version.replace('.', '')}-" not in wheel.name and "-abi3-" not in wheel.name:
        pytest.skip(f"{wheel.name} is not for Python {version}, which the root has")
    others = processor.folder / "wheelhouse"
    wheels.download(others, f"manylinux_{cross.GLIBC.replace('.', '_')}_{processor.name}", version)
    wheels.install(root, [wheel, *others.glob("*.whl")], WAIT)
    return root


def test_the_root_is_bare(root):
    wheels.check_bare(root)


def test_info(root):
    wheels.check_info(root, WAIT)


def test_a_job_runs(root, processor):
    def compile_c(source, program):
        cross.compile_mpi(processor, "mpich", source, program, f"-Wl,-rpath,{wheels.ENVIRONMENT}/lib")

    # The emulator has no process_vm_readv, which MPICH takes for granted for messages of its own.
    foreign = processor.name != platform.machine()
    wheels.check_job(root, compile_c, WAIT, ("-genv", "MPIR_CVAR_CH4_CMA_ENABLE", "0") if foreign else ())


def test_benchmarks_need_no_compiler(root):
    wheels.check_benchmark(root, WAIT)
