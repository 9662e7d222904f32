"""`tutti info`: what is installed, what was found, what is set."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

import tutti
from tutti import library_folder, native
from tutti.host import machine, mpis, topology
from tutti.launch.mpi_library import Abi
from tutti.launch.plan import LIBRARY
from tutti.report.waiting import waiting


def collect() -> dict[str, Any]:
    """Everything, as plain values."""
    cpus = machine.cpus()
    permitted, reason = machine.cma_permitted()
    shared = machine.shared_memory()
    return {
        "version": tutti.__version__,
        "core": native.core().version,
        "python": sys.version.split()[0],
        "libraries": _libraries(),
        "mpis": [{"name": mpi.name, "product": mpi.product, "version": mpi.version,
                  "launcher": str(mpi.launcher), "where": mpi.where} for mpi in mpis.discover()],
        "fabrics": _fabrics(),
        "algorithms": native.algorithms(),
        "cpus": {**asdict(cpus), "usable": cpus.usable},
        "topology": [asdict(cpu) for cpu in topology.cpus()],
        "cma": {"permitted": permitted, "reason": reason},
        "sessions_apart": machine.sessions_apart(),
        "multicast": asdict(machine.multicast(_setting("TUTTI_NET_INTERFACE"))),
        "memory_lock_bytes": machine.memory_lock_limit(),
        "dev_shm_bytes": None if shared is None else {"size": shared[0], "free": shared[1]},
        "settings": [asdict(setting) for setting in native.settings()],
        "memory": native.memory(),
        "memory_between_nodes": native.memory_between_nodes(),
    }


def _setting(name: str) -> str:
    return next(setting.value for setting in native.settings() if setting.name == name)


def _libraries() -> list[dict[str, Any]]:
    folder = library_folder()
    return [{"path": str(folder / name), "present": (folder / name).is_file()}
            for name in (LIBRARY, *(abi.plugin for abi in Abi))]


def _fabrics() -> list[dict[str, str]]:
    return [{"name": name, "reach": reach} for name, reach in native.fabrics()]


def show(as_json: bool) -> None:
    """Prints to standard output."""
    with waiting("asking every MPI that is here who it is"):
        state = collect()
    if as_json:
        print(json.dumps(state, indent=2))
        return
    console = Console()
    console.print(Text(f"tutti {state['version']}", style="bold"))
    console.print(_machine_table(state))
    console.print(_nodes_table(state))
    console.print(_mpi_table(state))
    console.print(_algorithm_table(state))
    console.print(_settings_table(state, "Settings", for_tests=False))
    console.print(_settings_table(state, "Settings for tests of tutti", for_tests=True))


def _grid(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", box=None, show_header=False,
                 pad_edge=False, padding=(0, 2, 0, 0))


def _machine_table(state: dict[str, Any]) -> Table:
    table = _grid("\nThis machine")
    cpus, cma, memory = state["cpus"], state["cma"], state["memory"]
    quota = f", {cpus['quota']:g} by control group" if cpus["quota"] else ""
    table.add_row("processors", f"{cpus['model']}: {cpus['online']} online, {cpus['allowed']} allowed{quota}; "
                  f"{cpus['cores']} cores, {cpus['sockets']} sockets, {cpus['numa_nodes']} NUMA nodes")
    table.add_row("last-level caches", Text("\n".join(topology.draw([topology.Cpu(**cpu) for cpu in state["topology"]]))))
    table.add_row("cross-memory attach", "permitted" if cma["permitted"] else f"not permitted: {cma['reason']}")
    if state["sessions_apart"]:
        table.add_row("giving way", "ranks with sessions of their own (MPICH's launcher makes them) hardly give way to each other "
                      "where they outnumber the processors; kernel.sched_autogroup_enabled=0 lets them")
    cast = state["multicast"]
    table.add_row("multicast", f"not possible: {cast['reason']}; broadcasts between nodes use trees" if cast["reason"] else
                  f"on {cast['interface']}, receive buffers up to {_size(cast['receive_buffer'])} without privileges; whether it "
                  "gets through to other nodes is tried when a job starts: TUTTI_LOG=info says so")
    locked = state["memory_lock_bytes"]
    table.add_row("lockable memory", "unlimited" if locked is None else _size(locked))
    shared = state["dev_shm_bytes"]
    table.add_row("/dev/shm", "missing" if shared is None else
                  f"{_size(shared['free'])} free of {_size(shared['size'])}")
    for fabric in state["fabrics"]:
        table.add_row(f"fabric {fabric['name']}", fabric["reach"])
    # One team for blocking collectives, one for the others (docs/decisions/0018-two-orders.md).
    table.add_row("memory", f"{_size(2 * memory['per_team'])} per rank and communicator, "
                  f"{_size(memory['segment_used'])} per rank at start and {_size(memory['record'])} for the record "
                  "of its calls (TUTTI_RECORDER), whatever the number of ranks")
    return table


def _nodes_table(state: dict[str, Any]) -> Table:
    """One communicator has up to two such areas: the second with its first non-blocking collective."""
    table = Table(title="\nMemory between nodes, of the rank that leads its node", title_justify="left", title_style="bold",
                  box=None, pad_edge=False, padding=(0, 2, 0, 0),
                  caption="Connections are made on first use; TUTTI_LOG=info says how many a job had, and what it registered.",
                  caption_justify="left")
    for name in ("nodes", "communicator", "with multicast", "job of as many ranks", "connections, in steps", "each with each"):
        table.add_column(name, justify="right")
    for row in state["memory_between_nodes"]:
        table.add_row(str(row["nodes"]), _size(row["communicator"]), _size(row["communicator_multicast"]),
                      _size(row["job"]), str(row["connections_steps"]), str(row["connections_all"]))
    return table


def _mpi_table(state: dict[str, Any]) -> Table:
    table = _grid("\nMPIs and libraries")
    for mpi in state["mpis"]:
        table.add_row(f"{mpi['product']} {mpi['version']}", mpi["launcher"])
    if not state["mpis"]:
        table.add_row("no MPI found", "in PATH or .envs")
    for library in state["libraries"]:
        path = Path(library["path"])
        table.add_row(path.name, str(path.parent) if library["present"] else Text(f"missing: {path}", style="red"))
    return table


def _algorithm_table(state: dict[str, Any]) -> Table:
    table = _grid("\nAlgorithms (to force one: tutti run --alg OP=NAME)")
    for collective, names in state["algorithms"].items():
        table.add_row(collective, ", ".join(names))
    return table


def _settings_table(state: dict[str, Any], title: str, for_tests: bool) -> Table:
    """Two lines per setting, so that it fits every terminal."""
    table = _grid(f"\n{title}")
    table.add_column(no_wrap=True)
    table.add_column()
    for setting in state["settings"]:
        if setting["for_tests"] != for_tests:
            continue
        changed = setting["source"] != "default"
        value = Text(setting["value"] or "(empty)", style="bold" if changed else "")
        value.append(f"  from {setting['source']}" if changed else "", style="bold")
        value.append(f"\n{setting['help']} ({setting['type']}; default {setting['default'] or 'empty'})", style="dim")
        table.add_row(setting["name"], value)
    return table


def _size(count: int) -> str:
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            return f"{value:.0f} {unit}" if value == int(value) else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError("unreachable")
