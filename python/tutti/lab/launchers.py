"""How a launcher is made to start its ranks on the nodes of a lab."""

from __future__ import annotations

from pathlib import Path

from tutti.errors import UserError
from tutti.launch import launcher as launchers
from tutti.launch.launcher import Kind, Segment

_HOSTS = {
    Kind.HYDRA: ("hosts", "host", "f", "file", "hostfile", "machinefile", "machine", "hosts-group", "configfile"),
    Kind.OPENMPI: ("H", "host", "hostfile", "machinefile", "default-hostfile", "app"),
}
_PER_NODE = {
    Kind.HYDRA: ("ppn", "perhost", "ranks-per-proc", "grr", "rr"),
    Kind.OPENMPI: ("npernode", "ppr", "map-by", "rankfile", "rf"),
}
_BINDING = ("bind-to", "bind-to-core", "bind-to-socket", "bind-to-none", "cpu-set", "cpu-list")
NODE_FOLDER = "/dev/shm"  # files there are the node's own, and go with it


def environment(agent: Path) -> dict[str, str]:
    """Variables by which every launcher uses the agent for ssh, also one that a script starts. The nodes share
    the machine's processors: without care each node's first rank would be bound to the same one."""
    if any(character in str(agent) for character in " :;,\t"):
        raise UserError(f"launchers cannot start an agent from a path with spaces or colons: {agent}; install "
                        "tutti elsewhere")
    return {
        "TUTTI_RUN_LAB": "1",  # ranks of one machine that share no memory are meant to
        "HYDRA_LAUNCHER": "ssh", "HYDRA_LAUNCHER_EXEC": str(agent),
        "I_MPI_HYDRA_BOOTSTRAP": "ssh", "I_MPI_HYDRA_BOOTSTRAP_EXEC": str(agent), "I_MPI_PIN": "0",
        # Open MPI names its folder in /tmp by process number alone, and does not start where another one left it.
        "PRTE_MCA_prte_tmpdir_base": NODE_FOLDER, "OMPI_MCA_orte_tmpdir_base": NODE_FOLDER,
        "OMPI_MCA_plm_rsh_agent": str(agent), "PRTE_MCA_plm_ssh_agent": str(agent),
        **{f"{name}_ALLOW_RUN_AS_ROOT{more}": "1" for name in ("OMPI", "PRTE") for more in ("", "_CONFIRM")},
    }


def spread(words: list[str], nodes: list[str]) -> list[str]:
    """The command line with the nodes in it: consecutive ranks share a node, and every node has as many as the
    next, as far as possible. What the user says about hosts, ranks per node and binding stays. A command line
    without a launcher stays as it is."""
    at = _launcher_position(words)
    if at is None:
        return list(words)
    launcher = launchers.identify(words[at])
    if launcher.kind is Kind.SLURM:
        raise UserError("srun starts programs on nodes of Slurm's own; in a lab use mpiexec or mpirun")
    segments = launchers.parse(words, launcher.kind, at + 1)
    if all(segment.program == segment.end for segment in segments):
        return list(words)  # mpiexec --version
    options = _hydra if launcher.kind is Kind.HYDRA else _openmpi
    return [*words[:at + 1], *options(segments, nodes), *words[at + 1:]]


def _launcher_position(words: list[str]) -> int | None:
    for at, word in enumerate(words):
        if launchers.is_launcher_name(word) and launchers.find_program(word) is not None:
            return at
    return None


def _has(segments: list[Segment], *names: str) -> bool:
    return any(segment.has(*names) for segment in segments)


def _ranks_per_node(segments: list[Segment], nodes: int) -> int:
    ranks = 0
    for segment in segments:
        count = segment.value_of("n", "np", "c")
        ranks += int(count) if count and count.isdigit() else 1
    return -(-ranks // nodes)


def _hydra(segments: list[Segment], nodes: list[str]) -> list[str]:
    options: list[str] = []
    if not _has(segments, *_HOSTS[Kind.HYDRA]):
        options += ["-hosts", ",".join(nodes)]
        if not _has(segments, *_PER_NODE[Kind.HYDRA]):
            options += ["-ppn", str(_ranks_per_node(segments, len(nodes)))]
    return options


def _openmpi(segments: list[Segment], nodes: list[str]) -> list[str]:
    options: list[str] = []
    if not _has(segments, *_HOSTS[Kind.OPENMPI]):
        slots = _ranks_per_node(segments, len(nodes))
        if _has(segments, *_PER_NODE[Kind.OPENMPI]):
            slots = max(slots, 64)  # the user's mapping decides
        options += ["--host", ",".join(f"{node}:{slots}" for node in nodes)]
    if not _has(segments, *_BINDING):
        options += ["--bind-to", "none"]
    return options

