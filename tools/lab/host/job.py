"""What the guest is to do, written as shell files it sources: job (settings), env, cmd."""

import os
import re
import shlex
import subprocess
from pathlib import Path

from .errors import EXIT_USAGE, LabError

TOOLS = Path(__file__).resolve().parent.parent.parent

PASS_PREFIXES = ("OMPI_", "WEIR_", "UCX_", "FI_", "PMIX_", "PRTE_", "GTEST_", "ASAN_", "UBSAN_", "TSAN_", "LSAN_")

NOBODY = 65534      # whom --user takes for root

# Hidden in the guest by a tmpfs of its own.
HIDDEN = ("/tmp", "/run", "/dev/shm")

# Make mpirun quick and quiet on a small machine; the caller's own values win. PRTE_*: from 5.0 on.
OMPI_DEFAULTS = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_orte_tmpdir_base": "/run/lab/ompi",
    "PRTE_MCA_prte_tmpdir_base": "/run/lab/ompi",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",   # more ranks than cores; ranks then yield by themselves
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "OMPI_MCA_plm_rsh_agent": "/lab/bin/lab-rsh",
    "PRTE_MCA_plm_ssh_agent": "/lab/bin/lab-rsh",
    "OMPI_MCA_btl_openib_warn_no_device_params_found": "0",
    "OMPI_MCA_btl_base_warn_component_unused": "0",
    "HWLOC_COMPONENTS": "-opencl,-gl,-cuda,-pci",
}


def quote(text) -> str:
    return shlex.quote(str(text))


def hidden(path) -> bool:
    return covered(path, HIDDEN)


def build_dir(opt) -> str:
    return os.path.abspath(opt.build or os.environ.get("WEIR_BUILD_DIR") or TOOLS.parent / "build")


def plugin(opt) -> str:
    return os.path.join(build_dir(opt), "lib/openmpi/mca_btl_weir.so")


def missing_plugin(opt, cmd) -> str:
    """Of a command that wants weir, before it is built; the installed lab has nothing to build."""
    wanted = any("weir" in re.split(r"[,=\s]", word) for word in cmd)
    if not wanted or TOOLS.name != "tools" or os.path.exists(plugin(opt)):
        return ""
    return f"weir is not built, there is no {plugin(opt)}: mpirun does not find it, unless it is installed"


def plugin_exports(opt) -> str:
    """The lines of tools/env, or nothing when nothing is built. Another root has another Open MPI: the
    guest asks that one."""
    build = build_dir(opt)
    if not os.path.exists(plugin(opt)):
        return ""
    if opt.root:
        return (f"exports=$({quote(TOOLS / 'env')} --build {quote(build)}) || fail 'tools/env failed'\n"
                'eval "$exports"\n')
    done = subprocess.run([str(TOOLS / "env"), "--build", build], stdout=subprocess.PIPE)
    if done.returncode:
        raise LabError("tools/env failed")
    return os.fsdecode(done.stdout)


def environment(opt) -> str:
    """Shell text that sets CMD's environment."""
    home = "/tmp/home" if opt.user else os.path.expanduser("~")
    lines = [
        "unset HOSTNAME",
        "export PATH=/lab/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        f"export HOME={quote(home)} USER={'user' if opt.user else 'root'} SHELL=/bin/bash",
        f"export LANG={quote(os.environ.get('LANG', 'C.UTF-8'))} TERM={quote(os.environ.get('TERM', 'dumb'))}",
        plugin_exports(opt),
    ]
    given = dict(OMPI_DEFAULTS)
    if opt.nodes > 1:
        given.update({
            "LAB_HOSTFILE": "/run/lab/hostfile",
            "OMPI_MCA_oob_tcp_if_include": "mgmt0",
            "PRTE_MCA_prte_if_include": "mgmt0",
        })
    if opt.slurm:
        given["OMPI_MCA_mpi_yield_when_idle"] = "1"  # srun says nothing of more ranks than cores
    given["LAB_FABRIC"] = fabric(opt)
    for name, value in os.environ.items():
        if name.startswith(PASS_PREFIXES):
            given[name] = value
    for item in opt.env:
        name, eq, value = item.partition("=")
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise LabError(f"--env {item}: not a variable name", EXIT_USAGE)
        if eq:
            given[name] = value
        elif name in os.environ:
            given[name] = os.environ[name]
    lines += [f"export {n}={quote(v)}" for n, v in given.items() if re.fullmatch(r"\w+", n, re.A)]
    return "\n".join(lines) + "\n"


def fabric(opt) -> str:
    return "nodes" if opt.nodes > 1 else "wire" if opt.wire else "loopback"


def shares(opt) -> list:
    """Directories and whether they are writable, shortest first so that nested ones land inside."""
    found = dict.fromkeys({os.path.realpath(d) for d in [os.getcwd(), *opt.rw]} - {"/"}, True)
    if opt.root:        # it has nothing of weir
        # Installed, the lab has no checkout: what is above it is /usr/share, of which the root has its own.
        checkout = [str(TOOLS.parent)] if TOOLS.name == "tools" else []
        for d in (*checkout, build_dir(opt)):
            if os.path.isdir(d) and not covered(d, found):
                found[d] = False
    return sorted(found.items(), key=lambda share: len(share[0]))


def covered(path, directories) -> bool:
    return any(path == d or path.startswith(d + "/") for d in directories)


def settings(opt, mark) -> str:
    uid, gid = ("", "")
    if opt.user:
        uid, gid = (os.getuid(), os.getgid()) if os.getuid() else (NOBODY, NOBODY)
    rows, cols = 24, 80
    if opt.shell and os.isatty(0):
        cols, rows = os.get_terminal_size(0)
    values = {
        "FABRIC": fabric(opt), "NODES": opt.nodes, "RAILS": opt.rails, "PATHS": opt.paths,
        "MTU": opt.mtu,
        "DEVICE": "no" if opt.no_device else "yes", "CPUS": opt.cpus,
        "SLURM": "yes" if opt.slurm else "no",
        "RATE": opt.rate or "", "DELAY": opt.delay or "", "LOSS": opt.loss or "",
        "MEMLOCK": opt.memlock, "UID": uid, "GID": gid, "CWD": os.path.realpath(os.getcwd()),
        "MODE": "shell" if opt.shell else "cmd", "ROWS": rows, "COLS": cols, "MARK": mark,
        "CACHE": "mmap",
    }
    lines = [f"LAB_{k}={quote(v)}" for k, v in values.items()]
    body = [f"{'share' if writable else 'show'} share{i} {quote(d)}"
            for i, (d, writable) in enumerate(shares(opt))]
    build = build_dir(opt)
    if hidden(build) and os.path.isdir(build) and not covered(build, dict(shares(opt))):
        body.insert(0, f"reveal {quote(build)}")
    lines += ["lab_shares() {", "\t:", *("\t" + b for b in body), "}"]
    return "\n".join(lines) + "\n"


def write(directory, opt, cmd, mark):
    directory = Path(directory)
    for name, text in {
        "job": settings(opt, mark),
        "env": environment(opt),
        "cmd": "set -- " + " ".join(quote(c) for c in cmd) + "\n",
    }.items():
        (directory / name).write_bytes(os.fsencode(text))
