"""Telling from a program's file which MPI it will load."""

import shutil
import subprocess

import pytest
from tutti.launch import elf
from tutti.launch.mpi_library import Abi, library_abi
from tutti.launch.program import Reach, examine

CC = shutil.which("cc") or shutil.which("gcc")
pytestmark = pytest.mark.skipif(CC is None, reason="no C compiler")
CALLER = "int MPI_Init(int*, char***); int main(void) { return MPI_Init(0, 0); }"


def compile_c(folder, name, source, *options):
    path = folder / name
    subprocess.run([CC, "-xc", "-", "-xnone", "-o", str(path), *options], input=source, text=True, check=True,
                   cwd=folder, capture_output=True)
    return path


# What each kind of MPI exports that the others do not.
MPICH = "int MPIR_Dup_fn, PMPI_Aint_add, PMPI_Init;"
OPENMPI = "int ompi_mpi_comm_world, PMPI_Init;"
STANDARD = "int PMPI_Abi_get_version, PMPI_Init;"


@pytest.fixture
def fake_mpi(tmp_path):
    """A library that passes for an MPI, by what it exports."""

    def make(soname, exports=None, *options):
        if exports is None:
            exports = OPENMPI if soname.startswith("libmpi.so.40") else STANDARD if "_abi" in soname else MPICH
        return compile_c(tmp_path, soname, exports + "int MPI_Init(int* a, char*** b) { return a && b; }", "-shared", "-fPIC",
                         f"-Wl,-soname,{soname}", *options)

    return make


@pytest.mark.parametrize("style", ["gnu", "sysv"])
@pytest.mark.parametrize("soname, exports, abi", [
    ("libmpi_gnu_91.so.12", MPICH, Abi.MPICH), ("libmpi_cray.so.12", MPICH, Abi.MPICH), ("libmpi_intel.so.12", MPICH, Abi.MPICH),
    ("libmpich.so.12", MPICH, Abi.MPICH), ("libmpi_amd_50.so.13", MPICH, Abi.MPICH),   # Cray, MVAPICH, a later Cray
    ("libmpi.so.12", MPICH.replace(" PMPI_Aint_add,", ""), Abi.MPICH),                  # MPICH 3.1
    ("libmpich.so.10", MPICH.replace(" PMPI_Aint_add,", ""), None),                     # before the common interface
    ("libmpi.so.12", OPENMPI, None),                                                    # Open MPI 1.10
    ("libmpi_ibm.so.3", OPENMPI, Abi.OPENMPI),                                          # Spectrum MPI
    ("libmpi.so.12", STANDARD, Abi.STANDARD), ("libmpi_abi.so.1", "int PMPI_Init;", Abi.STANDARD),
    ("libmpi_cray.so.12", "extern int MPIR_Dup_fn, use; int* other(void) { return &MPIR_Dup_fn; }", None),  # only uses it
    ("libmpiwrap.so", "int PMPI_other;", None)])
def test_recognised_by_exports(fake_mpi, soname, exports, abi, style):
    assert library_abi(fake_mpi(soname, exports, f"-Wl,--hash-style={style}")) is abi


def test_a_real_mpi_among_many_symbols(tmp_path):
    """Chains with several symbols in them, and both tables at once."""
    many = "".join(f"int filler_{i};" for i in range(3000))
    path = compile_c(tmp_path, "libmpi_many.so.12", many + MPICH, "-shared", "-fPIC", "-Wl,--hash-style=both")
    assert library_abi(path) is Abi.MPICH


def test_library_on_other_machines_only(tmp_path, fake_mpi):
    """What cannot be looked at is known by its name."""
    mpi = fake_mpi("libmpi_cray.so.12")
    program = compile_c(tmp_path, "app", CALLER, str(mpi))
    mpi.unlink()
    assert examine([str(program)], None, {}).abi is Abi.MPICH


def test_truncated_libraries_are_no_crash(tmp_path, fake_mpi):
    whole = fake_mpi("libmpi.so.12").read_bytes()
    for length in range(0, len(whole), 997):
        path = tmp_path / "libmpi-cut.so.12"
        path.write_bytes(whole[:length])
        assert library_abi(path) in (None, Abi.MPICH)


def test_damaged_libraries_do_not_hang(tmp_path, fake_mpi):
    """One byte in each thirty of the dynamic tables changed; chains then lead anywhere."""
    whole = bytearray(fake_mpi("libmpi.so.12", MPICH, "-Wl,--hash-style=sysv").read_bytes())
    for at in range(64, 2048, 31):
        damaged = bytearray(whole)
        damaged[at] ^= 0xff
        path = tmp_path / "libmpi-damaged.so.12"
        path.write_bytes(damaged)
        assert library_abi(path) in (None, *Abi)


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
