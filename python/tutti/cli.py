"""The command line. Each command's work is in a module of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Optional

import typer

import tutti
from tutti import explain, model, paper, sim, tune
from tutti.bench import dcp as bench_dcp
from tutti.bench import jitter, overlap, p2p, progress
from tutti.errors import Failure, UserError
from tutti.lab import command as lab_command

EXIT_FAILURE, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130

app = typer.Typer(
    name="tutti", no_args_is_help=True, add_completion=False, rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="One-sided communication for the MPI you already have.")
bench_app = typer.Typer(no_args_is_help=True, help="Measure tutti and its peers, interleaved in one run.")
app.add_typer(bench_app, name="bench")
app.command("sim")(sim.command)
app.command("model")(model.command)
app.command("paper")(paper.command)
app.command("explain")(explain.command)
app.command("tune")(tune.command)
bench_app.command("jitter")(jitter.command)
bench_app.command("dcp")(bench_dcp.command)
bench_app.command("p2p")(p2p.command)
bench_app.command("overlap")(overlap.command)
bench_app.command("progress")(progress.command)
app.command("lab", context_settings={"allow_interspersed_args": False})(lab_command.command)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"tutti {tutti.__version__}")
        raise typer.Exit()


@app.callback()
def _common(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True,
                                          help="Print the version.")] = False,
) -> None:
    pass


@app.command(context_settings={"allow_interspersed_args": False})
def run(
    launcher: Annotated[list[str], typer.Argument(
        metavar="LAUNCHER ...", help="The command line to run: mpiexec -n 4 ./app")],
    report: Annotated[Optional[str], typer.Option(
        metavar="[=FILE]", help="At the end, a table of what was taken over and what was not: on standard "
        "error, or in a file with --report=FILE.")] = None,
    report_json: Annotated[Optional[Path], typer.Option(
        metavar="FILE", help="The same as JSON.")] = None,
    alg: Annotated[Optional[list[str]], typer.Option(
        metavar="OP=NAME[:KEY=VALUE]", help="Use this algorithm for an operation; may be repeated.")] = None,
    dcp: Annotated[Optional[str], typer.Option(
        metavar="N|D:P", help="Dedicated collective processors, started beside the program's processes: N on "
        "each node, or D for each P processes of the program.")] = None,
    dcp_from_job: Annotated[bool, typer.Option(
        "--dcp-from-job", help="Take them from the job's own processes instead; needs --dcp.")] = False,
) -> None:
    """Run an MPI program with tutti: in front of the launcher, nothing else changes."""
    from tutti.dcp import options_of
    from tutti.launch.run import run as run_job

    options: dict[str, str] = options_of(dcp, dcp_from_job)
    if report is not None:
        options["TUTTI_REPORT"] = "1" if report == REPORT_HERE else _output_path(report)
    if report_json is not None:
        options["TUTTI_REPORT_JSON"] = _output_path(str(report_json))
    if alg:
        inherited = [os.environ["TUTTI_ALG"]] if os.environ.get("TUTTI_ALG") else []
        options["TUTTI_ALG"] = ",".join(inherited + alg)
    raise typer.Exit(run_job(launcher, options))


@app.command()
def info(
    json: Annotated[bool, typer.Option("--json", help="As JSON, for programs.")] = False,
) -> None:
    """What is installed, what was found, and what every setting is and where it came from."""
    from tutti import info as info_command

    info_command.show(as_json=json)


@bench_app.command("coll")
def bench_coll(
    mpi: Annotated[str, typer.Option(
        metavar="LIST", help="MPIs to compare: mpich, openmpi, impi, or NAME=FOLDER for one that lies "
        "elsewhere.")] = "mpich,openmpi,impi",
    np: Annotated[str, typer.Option("--np", metavar="LIST", help="Numbers of ranks.")] = "2",
    op: Annotated[str, typer.Option(
        metavar="LIST", help="Collectives: bcast, reduce, allreduce, allgather, barrier, gather, scatter, "
        "alltoall, reduce_scatter_block.")] = "bcast,allreduce,allgather,barrier",
    sizes: Annotated[str, typer.Option(
        metavar="LIST|A:B", help="Bytes: a list (4,64,1K), or a range in steps of four (4:4M).")] = "4:4M",
    rounds: Annotated[int, typer.Option(min=1, help="How often each combination is started.")] = 5,
    time_ms: Annotated[Optional[float], typer.Option(
        min=0.1, help="Time to measure each cell in each round; 20 unless told, in a lab 400 latencies.")] = None,
    sync: Annotated[str, typer.Option(
        metavar="none|barrier", help="none: calls follow each other, as in a program that does nothing "
        "else; barrier: each call starts after a barrier that is not timed.")] = "none",
    seed: Annotated[Optional[int], typer.Option(
        help="Of the order of the runs; printed, so that a run can be repeated.")] = None,
    lab: Annotated[Optional[int], typer.Option(
        min=1, metavar="NODES", help="Measure in a cluster in a box of so many nodes (see tutti lab).")] = None,
    latency: Annotated[Optional[str], typer.Option(metavar="TIME", help="Of the lab's network: 500us.")] = None,
    rate: Annotated[Optional[str], typer.Option(metavar="BITS", help="Of the lab's links: 1Gbit.")] = None,
    json: Annotated[Optional[Path], typer.Option("--json", metavar="FILE", help="Write the rows here.")] = None,
    plot: Annotated[Optional[Path], typer.Option(metavar="FILE", help="Draw them here (PNG, SVG).")] = None,
    jobs_only: Annotated[bool, typer.Option(
        "--dry-run", help="Print the command lines that would be run, and stop.")] = False,
) -> None:
    """Collectives: each MPI alone and with tutti, interleaved; medians and the ratio to the best peer."""
    from tutti.bench import coll

    coll.bench(coll.Request.parse(mpi=mpi, np=np, op=op, sizes=sizes, rounds=rounds, time_ms=time_ms,
                                  sync=sync, seed=seed, json_path=json, plot_path=plot, lab=lab, latency=latency,
                                  rate=rate), dry_run=jobs_only)


REPORT_HERE = "-"  # --report without a file


def _output_path(name: str) -> str:
    """An absolute path that can be written: ranks may run in another folder."""
    path = Path(name).absolute()
    if path.is_dir() or not path.parent.is_dir():
        raise UserError(f"cannot write the report to '{name}': its folder does not exist or it is one")
    return str(path)


def _with_bare_report(arguments: list[str]) -> list[str]:
    """`--report` may come without a file, which option parsers cannot express."""
    if arguments[:1] != ["run"]:
        return arguments
    changed = list(arguments)
    at = 1
    while at < len(changed) and changed[at].startswith("-") and changed[at] != "--":
        if changed[at] == "--report":
            changed[at] = f"--report={REPORT_HERE}"
        at += 2 if changed[at] in ("--report-json", "--alg", "--dcp") else 1
    return changed


def main(arguments: list[str] | None = None) -> None:
    """The entry point: errors become one line and an exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        status = app(args=_with_bare_report(arguments), prog_name="tutti", standalone_mode=False)
    except UserError as error:
        _fail(str(error), EXIT_USAGE)
    except Failure as error:
        _fail(str(error), EXIT_FAILURE)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_FAILURE)
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(EXIT_INTERRUPTED)
    except Exception as error:
        # The option parser's own errors; their class is private to typer, their method is not.
        if not hasattr(error, "format_message"):
            raise
        if not error.format_message():  # a command without arguments: its help has been printed
            sys.exit(EXIT_USAGE)
        _fail(f"{error.format_message()} (see tutti --help)", EXIT_USAGE)
    sys.exit(status if isinstance(status, int) else 0)


def _fail(message: str, status: int) -> None:
    print(f"tutti: {message}", file=sys.stderr)
    sys.exit(status)
