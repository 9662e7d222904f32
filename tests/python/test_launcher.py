"""Reading launchers' command lines."""

import pytest
from tutti.errors import UserError
from tutti.launch import launcher
from tutti.launch.launcher import Kind


def programs(line: str, kind: Kind) -> list[list[str]]:
    words = line.split()
    return [words[s.program:s.end] for s in launcher.parse(words, kind, 1)]


@pytest.mark.parametrize("line, expected", [
    ("mpiexec -n 2 ./app -x 3", [["./app", "-x", "3"]]),
    ("mpiexec -np 2 -ppn 1 -hosts a,b ./app", [["./app"]]),
    ("mpiexec -genv A B -env C D -genvnone -l ./app", [["./app"]]),
    ("mpiexec -genv A=B -n 1 ./app", [["./app"]]),
    ("mpiexec -n=2 --bind-to=core ./app", [["./app"]]),
    ("mpiexec -n 1 ./a 1 : -n 2 ./b 2", [["./a", "1"], ["./b", "2"]]),
    ("mpiexec -configfile f", [[]]),
    ("mpiexec -prepend-rank -bind-to core -map-by socket ./app --n 5", [["./app", "--n", "5"]]),
])
def test_hydra(line, expected):
    assert programs(line, Kind.HYDRA) == expected


@pytest.mark.parametrize("line, expected", [
    ("mpirun --allow-run-as-root --oversubscribe -n 2 ./app", [["./app"]]),
    ("mpirun --mca btl self,vader -np 4 -x FOO -x BAR=1 ./app -np 3", [["./app", "-np", "3"]]),
    ("mpirun -H a:2,b:2 --map-by ppr:1:node --bind-to none ./app", [["./app"]]),
    ("mpirun -n 1 ./a : -n 1 ./b", [["./a"], ["./b"]]),
    ("mpirun --display bind --prtemca a b ./app", [["./app"]]),
    ("mpirun --app jobs", [[]]),
    ("mpirun -n 2 -- ./app", [["./app"]]),
])
def test_openmpi(line, expected):
    assert programs(line, Kind.OPENMPI) == expected


@pytest.mark.parametrize("line, expected", [
    ("srun -n4 -N 2 --mpi=pmix ./app -n 3", [["./app", "-n", "3"]]),
    ("srun -n 4 --cpu-bind cores -l -u ./app", [["./app"]]),
    ("srun --ntasks=2 --exclusive ./app", [["./app"]]),
])
def test_srun(line, expected):
    assert programs(line, Kind.SLURM) == expected


def test_unknown_option_takes_what_cannot_be_the_program():
    assert programs("mpiexec -new-option 17 /bin/true", Kind.HYDRA) == [["/bin/true"]]
    assert programs("mpiexec -new-switch /bin/true x", Kind.HYDRA) == [["/bin/true", "x"]]


@pytest.mark.parametrize("kind, mpi, version", [
    ("mpich", "MPICH", "5.0.2"), ("impi", "Intel MPI", "2021.18"), ("openmpi", "Open MPI", "5.0.11"),
    ("openmpi4", "Open MPI", "4.1.4"), ("slurm", "Slurm", "22.05.8"), ("flux", "Flux", "0.68.0"),
    ("pals", "PALS", "1.2.12"), ("prrte", "Open MPI", "3.0.5")])
def test_identify(fake_launcher, kind, mpi, version):
    found = launcher.identify(str(fake_launcher(kind)))
    assert (found.mpi, found.version) == (mpi, version)


def test_identify_unknown_says_what_is_supported(fake_launcher):
    with pytest.raises(UserError, match="FancyMPI 1.0.*Hydra"):
        launcher.identify(str(fake_launcher("other")))


def test_identify_gives_up_on_a_launcher_that_hangs(executable, monkeypatch):
    monkeypatch.setattr(launcher, "ASK_TIMEOUT_S", 0.3)
    with pytest.raises(UserError, match="did not answer"):
        launcher.identify(str(executable("mpiexec", "#!/bin/sh\nexec sleep 30\n")))


def test_identify_missing():
    with pytest.raises(UserError, match="no launcher 'mpiexec-nowhere' in PATH"):
        launcher.identify("mpiexec-nowhere")


def test_real_mpis_are_recognised(mpi):
    assert launcher.identify(str(mpi.launcher)).mpi == mpi.product
