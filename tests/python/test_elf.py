"""Telling from a program's file which MPI it will load."""

import shutil
import subprocess

import pytest
from tutti.launch import elf
from tutti.launch.elf import Abi
from tutti.launch.program import Reach, examine

CC = shutil.which("cc") or shutil.which("gcc")
pytestmark = pytest.mark.skipif(CC is None, reason="no C compiler")
CALLER = "int MPI_Init(int*, char***); int main(void) { return MPI_Init(0, 0); }"


def compile_c(folder, name, source, *options):
    path = folder / name
    subprocess.run([CC, "-xc", "-", "-xnone", "-o", str(path), *options], input=source, text=True, check=True,
                   cwd=folder, capture_output=True)
    return path


@pytest.fixture
def fake_mpi(tmp_path):
    """A library that passes for an MPI, by its name."""

    def make(soname):
        return compile_c(tmp_path, soname, "int MPI_Init(int* a, char*** b) { return a && b; }", "-shared", "-fPIC",
                         f"-Wl,-soname,{soname}")

    return make


@pytest.mark.parametrize("soname, abi", [
    ("libmpi.so.12", Abi.MPICH), ("libmpich.so.12", Abi.MPICH), ("libmpi_abi.so.1", Abi.STANDARD),
    ("libmpi.so.40", Abi.OPENMPI)])
def test_linked_program(tmp_path, fake_mpi, soname, abi):
    program = compile_c(tmp_path, "app", CALLER, str(fake_mpi(soname)))
    found = examine([str(program)], None, {})
    assert (found.reach, found.abi) == (Reach.LINKED, abi)


@pytest.mark.parametrize("option", ["-Wl,-rpath,$ORIGIN,--disable-new-dtags", "-Wl,-rpath,$ORIGIN,--enable-new-dtags"])
def test_mpi_behind_another_library(tmp_path, fake_mpi, option):
    mpi = fake_mpi("libmpi.so.40")
    compile_c(tmp_path, "libsolver.so", "int MPI_Init(int*, char***); int solve(void) { return MPI_Init(0, 0); }",
              "-shared", "-fPIC", str(mpi))
    program = compile_c(tmp_path, "app", "int solve(void); int main(void) { return solve(); }", "-L.", "-lsolver",
                        option, "-Wl,--allow-shlib-undefined")
    assert examine([str(program)], None, {}).abi is Abi.OPENMPI


def test_mpi_behind_a_library_in_ld_library_path(tmp_path, fake_mpi):
    mpi = fake_mpi("libmpi.so.12")
    compile_c(tmp_path, "libsolver.so", "int MPI_Init(int*, char***); int solve(void) { return MPI_Init(0, 0); }",
              "-shared", "-fPIC", str(mpi))
    program = compile_c(tmp_path, "app", "int solve(void); int main(void) { return solve(); }", "-L.", "-lsolver",
                        "-Wl,--allow-shlib-undefined")
    assert examine([str(program)], None, {"LD_LIBRARY_PATH": str(tmp_path)}).abi is Abi.MPICH
    assert examine([str(program)], None, {}).abi is None


@pytest.mark.parametrize("pie", ["-static", "-static-pie"])
def test_static_program_is_out_of_reach(tmp_path, pie):
    source = "int PMPI_Init(int* a, char*** b) { return a && b; }\nint MPI_Init(int* a, char*** b) " \
             "{ return PMPI_Init(a, b); }\n" + CALLER.split(";", 1)[1]
    program = compile_c(tmp_path, "app", source, pie)
    found = examine([str(program)], None, {})
    assert found.reach is Reach.STATIC
    assert elf.defines_mpi(program)


def test_mpi_linked_in_statically(tmp_path):
    program = compile_c(tmp_path, "app", "int MPI_Init(int* a, char*** b) { return a && b; }\n"
                        + CALLER.split(";", 1)[1])
    assert examine([str(program)], None, {}).reach is Reach.STATIC


def test_script_and_wrapper_lead_to_the_program(tmp_path, fake_mpi, executable):
    program = compile_c(tmp_path, "app", CALLER, str(fake_mpi("libmpi.so.40")))
    script = executable("wrap.sh", "#!/bin/sh\nexec \"$@\"\n")
    for command in ([str(script), str(program)], ["env", "A=B", str(program), "1"]):
        assert examine(command, None, {"PATH": "/usr/bin:/bin"}).abi is Abi.OPENMPI


def test_program_without_mpi():
    found = examine(["/bin/true"], None, {})
    assert (found.reach, found.abi) == (Reach.LOADED, None)


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"\x7fELF" + b"\xff" * 200, b"#!\n", b"#!/nonexistent\n"])
def test_broken_files_are_no_crash(tmp_path, content):
    path = tmp_path / "broken"
    path.write_bytes(content)
    path.chmod(0o755)
    assert examine([str(path)], None, {}).abi is None


def test_truncated_programs_are_no_crash(tmp_path):
    whole = open("/bin/true", "rb").read()  # noqa: SIM115, PTH123
    for length in range(0, len(whole), 997):
        path = tmp_path / "cut"
        path.write_bytes(whole[:length])
        elf.read_elf(path)
        elf.defines_mpi(path)
