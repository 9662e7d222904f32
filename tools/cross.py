"""A compiler and libraries for wheels that run on another processor, or on an older C library than this machine's.

The compiler is zig's clang (`ziglang` of the Python package index), which brings the interface of every glibc and a C++
library that it links statically. What tutti is built with comes out of Debian's packages for that processor, unpacked into
a folder of build/cross: nothing is installed, and no root is needed."""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from dataclasses import dataclass
from pathlib import Path

import setup
from steps import StepFailed, run

GLIBC = "2.28"  # that of Red Hat Enterprise Linux 8 and Debian 10, and what the MPIs' wheels need
REQUIREMENTS = ["ziglang>=0.14"]
PACKAGES = ("libfabric-dev", "libhwy-dev", "libibverbs-dev", "libibverbs1", "librdmacm-dev", "librdmacm1", "libsodium-dev",
            "libtomlplusplus-dev", "zlib1g-dev")
TOOLS = {"cc": "cc -target {triple}.{glibc}", "c++": "c++ -target {triple}.{glibc}", "ar": "ar", "ranlib": "ranlib"}
TOOLCHAIN = """# Made by tools/cross.py.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR {name})
set(CMAKE_C_COMPILER {tools}/cc)
set(CMAKE_CXX_COMPILER {tools}/c++)
set(CMAKE_AR {tools}/ar CACHE FILEPATH "")
set(CMAKE_RANLIB {tools}/ranlib CACHE FILEPATH "")
set(CMAKE_FIND_ROOT_PATH {root})
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_LIBRARY_ARCHITECTURE {triple})
# The strip of this machine may not know that processor's files.
foreach(kind EXE SHARED MODULE)
  set(CMAKE_${{kind}}_LINKER_FLAGS_INIT -s)
endforeach()
# Parts of a header of zlib's and of others lie in the folder of the processor.
include_directories(SYSTEM {root}/usr/include/{triple})
"""


@dataclass(frozen=True)
class Processor:
    """A processor that wheels are built for."""

    name: str    # as Python and the kernel call it
    debian: str  # as Debian does

    @property
    def triple(self) -> str:
        return f"{self.name}-linux-gnu"

    @property
    def folder(self) -> Path:
        return setup.ROOT / "build" / "cross" / self.name

    @property
    def root(self) -> Path:
        """What the packages hold."""
        return self.folder / "root"


PROCESSORS = {processor.name: processor for processor in (Processor("x86_64", "amd64"), Processor("aarch64", "arm64"))}


def processor_called(name: str) -> Processor:
    """Raises StepFailed for one that no wheels are built for."""
    if name not in PROCESSORS:
        raise StepFailed(f"no wheels for '{name}': ARCH may be {' or '.join(PROCESSORS)}")
    return PROCESSORS[name]


def zig(folder: Path) -> Path:
    """The compiler, in an environment of its own below `folder`."""
    setup.make_venv(folder / "zig", REQUIREMENTS, "zig")
    return next((folder / "zig").glob("lib/python*/site-packages/ziglang/zig"))


def prepare(processor: Processor) -> Path:
    """Compiler and libraries; gives the file that tells CMake of them."""
    compiler = zig(processor.folder.parent)
    make_tools(processor, compiler)
    unpack(processor, PACKAGES, processor.root)
    toolchain = processor.folder / "toolchain.cmake"
    toolchain.write_text(TOOLCHAIN.format(name=processor.name, triple=processor.triple, root=processor.root,
                                          tools=processor.folder / "bin"))
    return toolchain


def make_tools(processor: Processor, compiler: Path) -> None:
    """One command for each tool, since CMake wants a file."""
    folder = processor.folder / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    for name, words in TOOLS.items():
        script = folder / name
        text = f"#!/bin/sh\nexec {compiler} {words.format(triple=processor.triple, glibc=GLIBC)} \"$@\"\n"
        if not script.exists() or script.read_text() != text:  # its time is part of what ccache looks at
            script.write_text(text)
            script.chmod(0o755)


def unpack(processor: Processor, packages: tuple[str, ...], root: Path) -> None:
    """Downloads Debian's packages for a processor and unpacks them into `root`, made anew when the list changes."""
    stamp, key = root.with_suffix(".stamp"), setup.digest(*packages)
    if setup.up_to_date(stamp, key):
        return
    for tool in ("apt-get", "dpkg-deb"):
        if not shutil.which(tool):
            raise StepFailed(f"{tool} is missing: the libraries for {processor.name} come out of Debian's packages")
    shutil.rmtree(root, ignore_errors=True)
    archives = root.with_suffix(".packages")
    archives.mkdir(parents=True, exist_ok=True)
    apt = private_apt(processor)
    run(f"{processor.name}: apt-get update", [*apt, "update"], setup.LOGS / f"cross-{processor.name}-update.log", attempts=3)
    run(f"{processor.name}: download {' '.join(packages)}", [*apt, "download", *packages],
        setup.LOGS / f"cross-{processor.name}-download.log", cwd=archives, attempts=3)
    for package in packages:
        archive = max(archives.glob(f"{package}_*.deb"), key=lambda path: path.stat().st_mtime)
        subprocess.run(["dpkg-deb", "--extract", archive, root], check=True)
    stamp.write_text(key)


def private_apt(processor: Processor) -> list[str]:
    """apt-get with lists of its own, of this processor alone, from where this machine has its packages."""
    state = processor.folder / "apt"
    for name in ("lists/partial", "archives/partial"):
        (state / name).mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    options = {"APT::Architecture": processor.debian, "APT::Architectures": processor.debian, "APT::Sandbox::User": "",
               "Acquire::Retries": "3", "Dir::Cache": state, "Dir::State": state, "Dir::State::lists": state / "lists",
               "Dir::State::status": state / "status"}
    return ["apt-get", "-q", *(word for name, value in options.items() for word in ("-o", f"{name}={value}"))]


def environment(processor: Processor, python: Path) -> dict[str, str]:
    """For the build of a wheel: what tells its backend which processor the files are for."""
    said = "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'), sysconfig.get_config_var('MULTIARCH'))"
    suffix, own = subprocess.run([python, "-c", said], capture_output=True, text=True, check=True).stdout.split()
    return {**setup.clean_environment(), "_PYTHON_HOST_PLATFORM": f"linux-{processor.name}",
            "SETUPTOOLS_EXT_SUFFIX": suffix.replace(own, processor.triple)}


def mpi_wheel(processor: Processor, mpi: str) -> Path:
    """The folder with lib and include of the MPI's wheel for that processor."""
    folder = processor.folder / mpi
    if not folder.is_dir():
        wheels = processor.folder / "wheels"
        run(f"{processor.name}: download {mpi}",
            [setup.VENV / "bin" / "python", "-m", "pip", "download", "--disable-pip-version-check", "--no-deps",
             "--only-binary", ":all:", "--platform", f"manylinux_{GLIBC.replace('.', '_')}_{processor.name}", "--dest", wheels,
             setup.MPI_REQUIREMENTS[mpi][0]],
            setup.LOGS / f"cross-{processor.name}-{mpi}.log", attempts=3)
        with zipfile.ZipFile(next(wheels.glob(f"{mpi}-*.whl"))) as content:
            content.extractall(folder)
    return next(folder.glob("*.data/data"))


def compile_mpi(processor: Processor, mpi: str, source: Path, program: Path, *options: str) -> None:
    """Compiles a C program for an MPI. It finds its libraries as it is started."""
    parts = mpi_wheel(processor, mpi)
    library = next(parts.glob("lib/libmpi.so.*"))
    run(f"{processor.name}: compile {program.name}",
        [processor.folder / "bin" / "cc", "-std=gnu11", "-O2", "-s", "-I", parts / "include", source, "-o", program, library,
         "-Wl,--allow-shlib-undefined", "-lm", *options],
        setup.LOGS / f"cross-{processor.name}-compile.log")
