"""`tutti run`: what the launcher gets, and that nothing else changes."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from conftest import clean_environment
from tutti import library_folder
from tutti.bench import peers

LIBRARY = str(library_folder() / "libtutti-preload.so")
REVOKE = str(library_folder() / "libtutti-revoke.so")
TRUE = "/bin/true"


def value_after(argv, *words):
    """The word that follows these words."""
    for at in range(len(argv) - len(words)):
        if tuple(argv[at:at + len(words)]) == words:
            return argv[at + len(words)]
    raise AssertionError(f"{words} not in {argv}")


@pytest.mark.parametrize("kind", ["mpich", "impi"])
def test_hydra_passes_the_preload_to_the_program_only(tutti, fake_launcher, kind):
    answer = tutti("run", str(fake_launcher(kind)), "-n", "2", TRUE, "x")
    assert answer.status == 0, answer.err
    argv = answer.json["argv"]
    assert answer.json["preload"] is None
    assert value_after(argv, "-genv", "LD_PRELOAD") == LIBRARY
    assert argv[-4:] == ["-n", "2", TRUE, "x"]


@pytest.mark.parametrize("name", ["mpirun", "mpiexec", "prterun"])
def test_openmpi_passes_the_preload_to_every_program(tutti, fake_launcher, name):
    answer = tutti("run", str(fake_launcher("openmpi", name)), "-n", "2", TRUE, ":", "-n", "1", TRUE)
    argv = answer.json["argv"]
    assert answer.json["preload"] is None
    halves = argv[:argv.index(":")], argv[argv.index(":") + 1:]
    for half in halves:
        assert f"LD_PRELOAD={REVOKE}:{LIBRARY}" in half


def test_only_where_communicators_can_be_revoked(tutti, fake_launcher):
    """Open MPI 4 has no MPIX_Comm_revoke, and programs look whether it is there."""
    assert f"LD_PRELOAD={LIBRARY}" in tutti("run", str(fake_launcher("openmpi4", "mpirun")), "-n", "2", TRUE).json["argv"]


def test_srun_exports(tutti, fake_launcher):
    launcher = str(fake_launcher("slurm", "srun"))
    answer = tutti("run", launcher, "-n2", TRUE)
    assert answer.json["argv"][0] == f"--export=ALL,LD_PRELOAD={LIBRARY}"
    answer = tutti("run", "--alg", "bcast=flat", launcher, "--export=HOME,LD_PRELOAD=/x.so", "-n",
                   "2", TRUE)
    exported = answer.json["argv"][0]
    assert exported.startswith("--export=HOME,")
    assert "TUTTI_ALG" in exported.split(",")
    assert exported.endswith(f"LD_PRELOAD=/x.so:{LIBRARY}")


@pytest.mark.parametrize("how", ["environment", "genv", "env", "x"])
def test_the_users_preload_stays_in_front(tutti, fake_launcher, how):
    hydra = [str(fake_launcher("mpich"))]
    if how == "environment":
        answer = tutti("run", *hydra, "-n", "1", TRUE, env={"LD_PRELOAD": "libm.so.6"})
        assert value_after(answer.json["argv"], "-genv", "LD_PRELOAD") == f"libm.so.6:{LIBRARY}"
    elif how == "genv":
        answer = tutti("run", *hydra, "-genv", "LD_PRELOAD", "/a.so /b.so", "-n", "1", TRUE)
        assert value_after(answer.json["argv"], "-genv", "LD_PRELOAD") == f"/a.so:/b.so:{LIBRARY}"
        assert answer.json["argv"].count("LD_PRELOAD") == 1
    elif how == "env":
        answer = tutti("run", *hydra, "-n", "1", "-env", "LD_PRELOAD", "/a.so", TRUE)
        assert value_after(answer.json["argv"], "-env", "LD_PRELOAD") == f"/a.so:{LIBRARY}"
    else:
        answer = tutti("run", str(fake_launcher("openmpi")), "-x", "LD_PRELOAD=/a.so", "-n", "1", TRUE)
        assert f"LD_PRELOAD=/a.so:{REVOKE}:{LIBRARY}" in answer.json["argv"]
        assert "LD_PRELOAD=/a.so" not in answer.json["argv"]


def test_a_run_inside_a_run_preloads_once(tutti, fake_launcher):
    answer = tutti("run", str(fake_launcher("mpich")), "-n", "1", TRUE,
                   env={"LD_PRELOAD": "/elsewhere/libtutti-preload.so"})
    assert value_after(answer.json["argv"], "-genv", "LD_PRELOAD") == LIBRARY


def test_settings_reach_the_program(tutti, fake_launcher, tmp_path):
    answer = tutti("run", "--report", "--report-json", "r.json", "--alg", "bcast=flat", "--alg", "barrier=flat",
                   str(fake_launcher("mpich")), "-genvnone", "-n", "1", TRUE, env={"TUTTI_WAIT": "yield"})
    argv = answer.json["argv"]
    assert value_after(argv, "-genv", "TUTTI_REPORT") == "1"
    assert value_after(argv, "-genv", "TUTTI_REPORT_JSON") == str(tmp_path / "r.json")
    assert value_after(argv, "-genv", "TUTTI_ALG") == "bcast=flat,barrier=flat"
    assert value_after(argv, "-genv", "TUTTI_WAIT") == "yield"


def test_report_into_a_file(tutti, fake_launcher, tmp_path):
    answer = tutti("run", "--report=r.txt", str(fake_launcher("mpich")), "-n", "1", TRUE)
    assert value_after(answer.json["argv"], "-genv", "TUTTI_REPORT") == str(tmp_path / "r.txt")


def test_wrappers_in_front_of_the_launcher(tutti, fake_launcher):
    answer = tutti("run", "timeout", "60", str(fake_launcher("mpich")), "-n", "1", TRUE)
    assert value_after(answer.json["argv"], "-genv", "LD_PRELOAD") == LIBRARY


def test_configfile(tutti, fake_launcher, tmp_path):
    (tmp_path / "jobs").write_text(f"-n 1 {TRUE}\n# comment\n-n 1 ./nope\n")
    answer = tutti("run", str(fake_launcher("mpich")), "-configfile", "jobs")
    assert answer.status == 2 and "./nope" in answer.err
    (tmp_path / "jobs").write_text(f"-n 1 {TRUE}\n")
    answer = tutti("run", str(fake_launcher("mpich")), "-configfile", "jobs")
    assert value_after(answer.json["argv"], "-genv", "LD_PRELOAD") == LIBRARY


def test_disable(tutti, fake_launcher):
    answer = tutti("run", str(fake_launcher("mpich")), "-n", "1", TRUE, env={"TUTTI_DISABLE": "1"})
    assert answer.json["argv"] == ["-n", "1", TRUE]
    assert "TUTTI_DISABLE" in answer.err


@pytest.mark.parametrize("arguments, env, expected", [
    (["run", "mpiexec-none", "-n", "2", TRUE], {}, "no executable 'mpiexec-none'"),
    (["run", "LAUNCHER", "-n", "2", "./nope"], {}, "no executable './nope'"),
    (["run", "LAUNCHER", "-configfile", "nofile"], {}, "cannot read"),
    (["run", "--report-json", "/nowhere/x", "LAUNCHER", TRUE], {}, "cannot write the report"),
    (["run", "--repotr", "LAUNCHER", TRUE], {}, "No such option: --repotr"),
    (["run", "LAUNCHER", TRUE], {"TUTTI_WIAT": "spin"}, "TUTTI_WAIT"),
    (["run", "LAUNCHER", TRUE], {"TUTTI_WAIT": "often"}, "TUTTI_WAIT"),
    (["run", "LAUNCHER", TRUE], {"TUTTI_CONFIG": "/nowhere.toml"}, "/nowhere.toml"),
    (["run", "--alg", "bcast=fastest", "LAUNCHER", TRUE], {}, "fastest"),
    (["run", "--alg", "broadcast=flat", "LAUNCHER", TRUE], {}, "broadcast"),
    (["run", "jsrun", "-n", "2", TRUE], {}, "not supported"),
    (["run", "OTHER", "-n", "2", TRUE], {}, "no supported MPI"),
    (["run"], {}, "LAUNCHER"),
    (["walk"], {}, "walk"),
])
def test_bad_input_is_one_clear_line(tutti, fake_launcher, arguments, env, expected):
    names = {"LAUNCHER": str(fake_launcher("mpich")), "OTHER": str(fake_launcher("other"))}
    answer = tutti(*[names.get(word, word) for word in arguments], env=env)
    assert answer.status == 2
    assert expected in answer.err
    assert len(answer.err.strip().splitlines()) == 1
    assert answer.err.startswith("tutti: ")
    assert answer.out == ""


@pytest.mark.parametrize("words, line", [
    (["jsrun", "-n", "2", TRUE, "-n"], f"jsrun -n 2 env LD_PRELOAD=PRELOAD {TRUE} -n"),
    (["aprun", "-n", "2", "-N", "1", "./nope"], "aprun -n 2 -N 1 ./nope env LD_PRELOAD=PRELOAD PROGRAM"),
    (["OTHER", "-n", "2", TRUE], f"OTHER -n 2 env LD_PRELOAD=PRELOAD {TRUE}"),
])
def test_unknown_launchers_can_be_helped_by_hand(tutti, fake_launcher, words, line):
    """The error ends with the command line that does the same."""
    other = str(fake_launcher("other"))
    answer = tutti("run", *[word.replace("OTHER", other) for word in words])
    assert answer.status == 2
    said = re.sub(r"LD_PRELOAD=\S+/libtutti-preload\.so", "LD_PRELOAD=PRELOAD", answer.err)
    assert said.rstrip().endswith("run: " + line.replace("OTHER", other)), answer.err


def test_what_the_job_tells_is_said_while_it_runs(tutti, executable):
    """A long job's user need not wait for its end; and it is said once."""
    script = executable("mpiexec", """#!/bin/sh
[ "$1" = --version ] && { echo 'HYDRA build details:'; echo 'Version: 1'; exit; }
while [ "$1" != TUTTI_RUN_STAMP ]; do shift; done
echo 'took over nothing much' > "$2"
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do sleep 0.2; grep -q 'nothing much' "$STREAM" && break; done
echo end >&2
""")
    stream = script.with_name("stream")
    wrapped = executable("wrapped", f"#!/bin/sh\nexec {sys.executable} -m tutti run {script} -n 1 {TRUE} 2> {stream}\n")
    subprocess.run([str(wrapped)], env=clean_environment(STREAM=str(stream)), timeout=60, check=True)
    assert stream.read_text().splitlines() == ["tutti: took over nothing much", "end"]


def test_exit_status_and_streams(tutti, executable):
    script = executable("mpiexec", "#!/bin/sh\n[ \"$1\" = --version ] && { echo 'HYDRA build details:'; "
                        "echo 'Version: 1'; exit; }\ncat\necho err >&2\nexit 7\n")
    answer = tutti("run", str(script), "-n", "1", TRUE, stdin="input\n")
    assert (answer.status, answer.out) == (7, "input\n")
    assert answer.err == "err\n"


def test_no_calls_seen(tutti, fake_launcher):
    answer = tutti("run", str(fake_launcher("mpich")), "-n", "1", TRUE)
    assert answer.err.startswith("tutti: no calls seen") and len(answer.err.splitlines()) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP])
def test_signals_are_forwarded(executable, tmp_path, number):
    script = executable("mpiexec", f"""#!{sys.executable}
import signal, sys, time
if sys.argv[1:] == ["--version"]:
    print("HYDRA build details:\\nVersion: 1")
    sys.exit()
def got(number, frame):
    print("got", number, flush=True)
    sys.exit(40)
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP):
    signal.signal(number, got)
print("ready", flush=True)
time.sleep(30)
""")
    process = subprocess.Popen([sys.executable, "-m", "tutti", "run", str(script), "-n", "1", TRUE],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean_environment())
    try:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        out, _ = process.communicate(timeout=20)
    finally:
        process.kill()
    assert out == f"got {int(number)}\n"
    assert process.returncode == 40


def test_the_launcher_ends_when_tutti_is_killed(executable, tmp_path):
    script = executable("mpiexec", "#!/bin/sh\n[ \"$1\" = --version ] && { echo 'HYDRA build details:'; "
                        "echo 'Version: 1'; exit; }\necho $$\nexec sleep 60\n")
    process = subprocess.Popen([sys.executable, "-m", "tutti", "run", str(script), "-n", "1", TRUE],
                               stdout=subprocess.PIPE, text=True, env=clean_environment())
    child = int(process.stdout.readline())
    process.kill()
    process.wait()
    for _ in range(100):
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    raise AssertionError("the launcher is still there")


def test_real_launchers_pass_the_preload_to_all_ranks(tutti, mpi):
    extra = peers.needed_options(mpi)
    show = "echo $LD_PRELOAD"
    answer = tutti("run", str(mpi.launcher), *extra, "-n", "2", "sh", "-c", show, ":", "-n", "1", "sh", "-c", show)
    assert answer.status == 0, answer.err
    expected = f"{REVOKE}:{LIBRARY}" if mpi.product == "Open MPI" else LIBRARY
    assert answer.out.split() == [expected] * 3


def test_real_launchers_exit_status(tutti, mpi):
    extra = peers.needed_options(mpi)
    assert tutti("run", str(mpi.launcher), *extra, "-n", "1", "sh", "-c", "exit 9").status == 9


PROGRAM = """
from mpi4py import MPI
import json, numpy
comm = MPI.COMM_WORLD
total = comm.allreduce(comm.rank)
out = numpy.zeros(1000)
comm.Allreduce(numpy.full(1000, comm.rank + 1.0), out)
comm.Barrier()
if comm.rank == 0:
    print(json.dumps([comm.size, total, out[0], out[-1]]))
"""


def test_mpi4py_is_taken_over(tutti, mpi, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    extra = peers.needed_options(mpi)
    answer = tutti("run", "--report-json", "report.json", str(mpi.launcher), *extra, "-n", "3",
                   str(mpi.prefix / "bin" / "python"), "program.py")
    assert answer.status == 0, answer.err
    assert json.loads(answer.out) == [3, 3, 6.0, 6.0]
    assert "no calls seen" not in answer.err
    assert json.loads((tmp_path / "report.json").read_text())


def test_flux_gets_the_preload_after_the_users_rules(tutti, fake_launcher):
    flux = str(fake_launcher("flux", "flux"))
    answer = tutti("run", "--report", flux, "run", "-n", "4", "--env=-*", TRUE, "-n")
    assert answer.status == 0, answer.err
    words = answer.json["argv"]
    assert words[:4] == ["run", "-n", "4", "--env=-*"]
    assert words[-2:] == [TRUE, "-n"]
    assert "--env=TUTTI_REPORT=1" in words[4:-2]
    assert f"--env=LD_PRELOAD={LIBRARY}" in words[4:-2]
    assert answer.err == ""  # its ranks may be on other machines, where nobody sees what they leave here
    refused = tutti("run", flux, "jobs")
    assert refused.status == 2
    assert "flux run" in refused.err


def test_pals_gets_the_preload_for_each_program(tutti, fake_launcher):
    pals = str(fake_launcher("pals"))
    answer = tutti("run", pals, "-n", "2", "--env", "LD_PRELOAD=/lib/tool.so", "--", TRUE, ":", "-n", "1", TRUE)
    assert answer.status == 0, answer.err
    words = answer.json["argv"]
    assert [word for word in words if word.startswith("LD_PRELOAD=")] == [f"LD_PRELOAD=/lib/tool.so:{LIBRARY}",
                                                                         f"LD_PRELOAD={LIBRARY}"]
    assert words[:2] == ["-n", "2"] and words[-1] == TRUE and "--" not in words


def test_prun_is_open_mpis(tutti, fake_launcher):
    answer = tutti("run", str(fake_launcher("prrte", "prun")), "-n", "2", TRUE)
    assert f"LD_PRELOAD={LIBRARY}" in answer.json["argv"], answer.err


def test_others_are_told_what_to_set(tutti):
    answer = tutti("run", "jsrun", "-n", "2", TRUE)
    assert answer.status == 2
    assert f"env LD_PRELOAD={LIBRARY}" in answer.err


def test_what_a_launcher_is_is_remembered(tutti, executable, tmp_path):
    """Only of ELF files, only while they are the same, and only in a file of one's own."""
    from tutti.launch import known

    home = tmp_path / "cache"
    launcher = tmp_path / "mpiexec"
    launcher.write_bytes(b"\x7fELF and more")
    os.environ["XDG_CACHE_HOME"] = str(home)
    try:
        answer = ("hydra", "MPICH", "5.0.2")
        assert known.find(str(launcher)) is None
        known.remember(str(launcher), answer)
        assert known.find(str(launcher)) == answer
        file = home / "tutti" / "launchers"
        assert file.stat().st_mode & 0o777 == 0o600
        for number in range(100):  # it does not grow for ever
            launcher.write_bytes(b"\x7fELF" + b"x" * number)
            known.remember(str(launcher), answer)
        assert len(file.read_text().splitlines()) == known.MOST + 1
        launcher.write_bytes(b"\x7fELF another one")
        assert known.find(str(launcher)) is None
        known.remember(str(launcher), answer)
        file.chmod(0o666)  # anybody may have written it
        assert known.find(str(launcher)) is None
        file.unlink()
        file.symlink_to(tmp_path / "elsewhere")
        assert known.find(str(launcher)) is None
        (tmp_path / "elsewhere").write_bytes(os.urandom(1000))
        assert known.find(str(launcher)) is None
        script = executable("mpirun", "#!/bin/sh\n")
        known.remember(str(script), answer)
        assert known.find(str(script)) is None
        os.environ["XDG_CACHE_HOME"] = "/proc/nowhere"
        known.remember(str(launcher), answer)  # no complaint
        assert known.find(str(launcher)) is None
    finally:
        del os.environ["XDG_CACHE_HOME"]


def test_writers_of_the_memory_do_not_disturb_each_other(tmp_path):
    """Whatever a reader finds is whole."""
    code = ("import sys; from tutti.launch import known\n"
            "for i in range(60):\n"
            "    known.remember(sys.argv[1], ('hydra', 'MPICH', '1.%d' % i))\n"
            "    found = known.find(sys.argv[1])\n"
            "    assert found is not None and found[:2] == ('hydra', 'MPICH'), found\n")
    writers = []
    for number in range(4):
        launcher = tmp_path / f"mpiexec{number % 2}"
        launcher.write_bytes(b"\x7fELF")
    for number in range(4):
        writers.append(subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "mpiexec0")],
                                        env=clean_environment(XDG_CACHE_HOME=str(tmp_path / "c"))))
    assert [writer.wait(timeout=60) for writer in writers] == [0] * 4
    assert os.listdir(tmp_path / "c" / "tutti") == ["launchers"]


def test_a_run_imports_little(fake_launcher, tmp_path):
    """What every job would pay: none of the option parser, the plots, the extension module."""
    code = ("import sys, tutti.cli\ntry:\n    tutti.cli.main(sys.argv[1:])\nexcept SystemExit as end:\n    assert not end.code, end\n"
            "heavy = {'typer', 'click', 'rich', 'matplotlib', 'numpy', 'tutti._core', 'tutti.commands', 'dataclasses', 'typing'}\n"
            "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n")
    done = subprocess.run([sys.executable, "-c", code, "run", "--report", str(fake_launcher("mpich")), "-n", "1", TRUE],
                          capture_output=True, text=True, env=clean_environment(), timeout=60, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "[]", done.stderr


def test_plain_and_explained_options_mean_the_same():
    """The quick reader and the option parser of the other commands know the same options."""
    from tutti import commands
    from tutti.launch import options
    import typer

    command = typer.main.get_command(commands.app).commands["run"]
    known_there = {name for parameter in command.params for name in parameter.opts if name.startswith("--")} - {"--help"}
    assert known_there == {*options._VALUES, "--report", "--dcp-from-job"}
