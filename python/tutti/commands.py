"""The command line, all but a plain `tutti run` (cli.py). Each command's work is in a module of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer
import typer.core

import tutti
from tutti.bench import dcp as bench_dcp
from tutti.bench import overlap, p2p, progress
from tutti.bench import report as bench_report
from tutti.choice import explain
from tutti.errors import UserError
from tutti.lab import command as lab_command
from tutti.launch.options import REPORT_HERE, Options, settings_of
from tutti.paper import command as paper_command
from tutti.paper import model
from tutti.report import command as report_command
from tutti.sim import command as sim_command
from tutti.sim import jitter
from tutti.trace import command as trace_command
from tutti.tune import command as tune_command
from tutti.where import command as where_command

# Of the list in the help.
ORDER = ("run", "info", "report", "where", "trace", "bench", "tune", "sim", "model", "paper", "explain", "lab")
RESEARCH = "For researchers, and for trying algorithms"


class _Commands(typer.core.TyperGroup):
    def list_commands(self, context) -> list[str]:
        """In the order of how many people need them, wherever they were added."""
        return sorted(super().list_commands(context), key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))


app = typer.Typer(
    name="tutti", cls=_Commands, no_args_is_help=True, add_completion=False, rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="One-sided communication for the MPI you already have.")
bench_app = typer.Typer(no_args_is_help=True, help="Measure tutti and its peers, interleaved in one run.")
app.add_typer(bench_app, name="bench")
app.command("sim", rich_help_panel=RESEARCH)(sim_command.command)
app.command("model", rich_help_panel=RESEARCH)(model.command)
app.command("paper", rich_help_panel=RESEARCH)(paper_command.command)
app.command("explain", rich_help_panel=RESEARCH)(explain.command)
app.command("tune")(tune_command.command)
app.command("where")(where_command.command)
app.command("trace")(trace_command.command)
app.command("report")(report_command.command)
bench_app.command("jitter")(jitter.command)
bench_app.command("dcp")(bench_dcp.command)
bench_app.command("p2p")(p2p.command)
bench_app.command("report")(bench_report.command)
bench_app.command("overlap")(overlap.command)
bench_app.command("progress")(progress.command)
app.command("lab", rich_help_panel=RESEARCH, context_settings={"allow_interspersed_args": False})(lab_command.command)


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
        metavar="[=FILE]", help="Print at the end what was taken over, where the time went and who was late: on standard error, or "
        "to a file with --report=FILE (FILE.html: as a page for browsers; FILE.json: as JSON).")] = None,
    report_json: Annotated[Optional[Path], typer.Option(
        metavar="FILE", help="Write the same as JSON.")] = None,
    alg: Annotated[Optional[list[str]], typer.Option(
        metavar="OP=NAME[:KEY=VALUE]", help="Use this algorithm for an operation. May be repeated.")] = None,
    dcp: Annotated[Optional[str], typer.Option(
        metavar="N|D:P|auto:FILE", help="Start dedicated collective processors beside the program's processes: N on each node, "
        "or D for every P processes; auto:FILE: as many as pay (tutti tune --dcp --app PROFILE --save FILE).")] = None,
    dcp_from_job: Annotated[bool, typer.Option(
        "--dcp-from-job", help="Take the dedicated processors from the job's own processes. Needs --dcp.")] = False,
) -> None:
    """Run an MPI program with tutti. It stands in front of the launcher; nothing else changes."""
    from tutti.launch.run import run as run_job

    options = Options(launcher, report, str(report_json) if report_json else None, alg or [], dcp, dcp_from_job)
    raise typer.Exit(run_job(launcher, settings_of(options)))


@app.command()
def info(
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Show what is installed, which MPIs and networks were found, and where each setting comes from."""
    from tutti.host import info as info_command

    info_command.show(as_json=json)


@bench_app.command("coll")
def bench_coll(
    mpi: Annotated[str, typer.Option(
        metavar="LIST", help="MPIs to compare: mpich, openmpi, impi, or NAME=FOLDER for one that lies "
        "elsewhere.")] = "mpich,openmpi,impi",
    np: Annotated[str, typer.Option("--np", metavar="LIST", help="Numbers of ranks.")] = "2",
    op: Annotated[str, typer.Option(
        metavar="LIST", help="Collectives: bcast, reduce, allreduce, allgather, barrier, gather, scatter, "
        "alltoall, reduce_scatter_block, reduce_scatter, scan, exscan, gatherv, scatterv, alltoallv, alltoallw (the last "
        "four: with equal blocks), alltoallv_sparse (one block in a hundred, at least one for each rank; the others are "
        "empty), neighbor_allgather, neighbor_allgatherv, neighbor_alltoall, neighbor_alltoallv, "
        "neighbor_alltoallw (on a ring of all ranks). ibcast and the like are begun and awaited at once, bcast_init and the "
        "like started and awaited.")] = (
            "bcast,allreduce,allgather,barrier"),
    sizes: Annotated[str, typer.Option(
        metavar="LIST|A:B", help="Bytes: a list (4,64,1K), or a range in steps of four (4:4M).")] = "4:4M",
    rounds: Annotated[int, typer.Option(min=1, help="How often each combination is started.")] = 5,
    time_ms: Annotated[Optional[float], typer.Option(
        min=0.1, help="Time for each cell in each round. Default: 20, and in a lab 400 latencies.")] = None,
    sync: Annotated[str, typer.Option(
        metavar="none|barrier", help="none: calls follow each other at once. barrier: each call starts after a barrier that "
        "is not timed.")] = "none",
    seed: Annotated[Optional[int], typer.Option(
        help="Seed of the order of the runs. It is printed, so that a run can be repeated.")] = None,
    lab: Annotated[Optional[int], typer.Option(
        min=1, metavar="NODES", help="Measure in a cluster in a box with this many nodes (see tutti lab).")] = None,
    latency: Annotated[Optional[str], typer.Option(metavar="TIME", help="Latency of the lab's network: 500us.")] = None,
    rate: Annotated[Optional[str], typer.Option(metavar="BITS", help="Rate of the lab's links: 1Gbit.")] = None,
    against: Annotated[str, typer.Option(
        metavar="peers|own", help="What tutti is compared with. peers: the best of the MPIs alone. own: the same MPI alone, "
        "as it comes and at its best settings; what falls below 0.97 is measured again.")] = "peers",
    cold: Annotated[bool, typer.Option(
        "--cold", help="Measure as other benchmarks do: a start for each size, 100 calls to warm up, the mean of 1,000 (a "
        "tenth of both beyond 64 KiB).")] = False,
    beside: Annotated[int, typer.Option(min=0, max=64, help="Busy processes that run beside the ranks.")] = 0,
    also: Annotated[Optional[list[str]], typer.Option(
        metavar="MPI=SETTINGS", help="Measure this MPI alone with these settings, too: variables, then options of its "
        "launcher, as in openmpi='--mca coll_xhc_priority 95'. In each cell its fastest settings count. Can be repeated.")] = None,
    json: Annotated[Optional[Path], typer.Option("--json", metavar="FILE", help="Write the rows to this file.")] = None,
    plot: Annotated[Optional[Path], typer.Option(metavar="FILE", help="Draw the rows in this file (PNG, SVG).")] = None,
    jobs_only: Annotated[bool, typer.Option(
        "--dry-run", help="Print the command lines and stop.")] = False,
) -> None:
    """Measure collectives: each MPI alone and with tutti, interleaved. Gives medians and the ratio to the best peer."""
    from tutti.bench import coll

    coll.bench(coll.Request.parse(mpi=mpi, np=np, op=op, sizes=sizes, rounds=rounds, time_ms=time_ms,
                                  sync=sync, seed=seed, json_path=json, plot_path=plot, lab=lab, latency=latency,
                                  rate=rate, against=against, cold=cold, beside=beside, also=also), dry_run=jobs_only)


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


def call(arguments: list[str]) -> int | None:
    """Carries a command out; its exit status. Raises UserError for what the option parser refuses."""
    try:
        return app(args=_with_bare_report(arguments), prog_name="tutti", standalone_mode=False)
    except typer.Abort:
        raise KeyboardInterrupt from None
    except Exception as error:
        # The option parser's own errors; their class is private to typer, their method is not.
        if not hasattr(error, "format_message"):
            raise
        if not error.format_message():  # a command without arguments: its help has been printed
            return 2
        raise UserError(f"{error.format_message()} (see tutti --help)") from None
