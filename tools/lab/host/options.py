"""The command line of the lab, and what its --help says."""

import argparse
import os
import re

from .arch import ARCHES, HERE

HELP = """\
Runs CMD in a place with working RDMA: a micro-VM (QEMU; KVM where that works, else TCG)
with Debian's kernel, Soft-RoCE, this host's own root file system under a throw-away
overlay, and the working directory shared writable at the same path. CMD's stdout,
stderr and exit code come back as they are; its stdin is /dev/null.
"""

EPILOG = """\
FABRICS
  loopback   (default) one VM, one RDMA device rxe0 on eth0; peers meet on that device.
             For software-overhead ratios; the wire is never touched.
  --wire     one VM, two devices rxe0a and rxe0b joined by a wire (a veth pair w0a, w0b;
             addresses 10.77.0.1, 10.77.0.2) that --rate, --delay and --loss shape.
             --rails 2 adds rxe1a, rxe1b (10.77.1.x). For faults, rails, rates, overlap.
             --paths 2 makes two equal links of each rail; a packet's UDP source port modulo 2
             is its path, as ECMP's hash in a fabric. Queue pairs have ports of their own.
  --nodes 2  two VMs, node1 and node2, rxe0 on each. CMD runs on node1. mpirun -H node1,node2
             or --hostfile $LAB_HOSTFILE reaches both; so does 'lab-rsh node2 CMD'.
             With --slurm both are idle nodes of a Slurm when CMD begins (srun, salloc, sbatch); its
             settings and logs are in /etc/slurm and /run/lab/slurm.

INSIDE THE GUEST
  lab-wire status                    show what each rail is doing
  lab-wire blackout|restore [RAIL]   drop everything, silently; undo
  lab-wire rate|delay|loss X [RAIL]  netem's spelling: 100mbit, 1ms, 1%; none to clear
  lab-wire down|up [RAIL]            take the link down: port events, unlike a blackout
      RAIL is 0, 1, ... (default: all); 0a or 0b means what that end sends, only; with --paths,
      0/1 and 0a/1 mean path 1 of these, also of all rails: /1. A link goes down as a whole.
      Needs root inside, so not with --user.
      With --nodes 2, end a is node1 and b is node2, and mpirun's own network is spared.
  lab-rsh HOST CMD...                run CMD on the other node (stderr joins stdout)
  LAB_FABRIC, LAB_HOSTFILE           loopback, wire or nodes; the host file with --nodes 2

ENVIRONMENT
  Passed to CMD: OMPI_* PRTE_* PMIX_* WEIR_* UCX_* FI_* GTEST_* ASAN_* UBSAN_* TSAN_* LSAN_* and what
  --env names. When weir is built (build/, or --build, or WEIR_BUILD_DIR), CMD gets what
  weir's tools/env prints, so mpirun finds the plugin. mpirun may run as root and oversubscribe.
  The cache is $XDG_CACHE_HOME/weir/lab (~/.cache); console logs of failures go to $TMPDIR.

FILES
  Writable for the host: the working directory and every --rw. /tmp, /run and /dev/shm are
  empty; all else looks like the host and forgets what is written.
  --arch ARCH: all else looks like a root of bookworm for that machine, as with --root.
  --root DIR: all else looks like DIR, another distribution's tree (weir-lab-root makes one). Of
  the host there are the working directory, every --rw, weir's checkout and its build directory,
  which is to be a build for that distribution.

EXIT STATUS
  CMD's own (128+N when signal N ended it, 127 not found); else, with a line 'lab: ...' on stderr,
  124  the time limit was reached
  125  the lab failed: no boot, no device, QEMU died, or the guest kernel complained (WARN,
       BUG, oops, panic, hung task, stall, out of memory); the line names the console log
  2    wrong usage

EXAMPLES
  lab -- ibv_devinfo -d rxe0
  lab -- sh -c 'ib_send_lat -d rxe0 & sleep 1; ib_send_lat -d rxe0 localhost; wait'
  lab -- mpirun -np 4 --mca btl weir,self ./my_app
  lab --wire --rate 100mbit --rails 2 -- ./overlap_test
  lab --wire -- sh -c './long_run & sleep 2; lab-wire blackout 0; sleep 5; lab-wire restore 0; wait'
  lab --nodes 2 -- mpirun -np 2 -H node1,node2 --mca btl weir,self ./my_app
  lab --nodes 2 --slurm -- srun --mpi=pmix -N 2 -n 4 --export=ALL,OMPI_MCA_btl=weir,self ./my_app
  lab --user --memlock 65536 -- ./my_app
  lab --root "$(weir-lab-root trixie)" --build build-trixie -- mpirun -np 2 --mca btl weir,self ./my_app
  lab --arch arm64 --build build-arm64 -- mpirun -np 2 --mca btl weir,self ./my_app
  lab --shell
"""


def parse(argv):
    p = argparse.ArgumentParser(prog="lab", usage="lab [OPTION]... -- CMD [ARG]...\n       lab [OPTION]... --shell",
                                description=HELP, epilog=EPILOG, allow_abbrev=False,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    where = p.add_argument_group("where")
    where.add_argument("--host", action="store_true", help="no VM: run here, if this host has a usable RDMA device")
    where.add_argument("--wire", action="store_true", help="two devices joined by a wire")
    where.add_argument("--nodes", type=int, default=1, choices=(1, 2), help="two VMs as two hosts")
    where.add_argument("--slurm", action="store_true", help="Slurm on the nodes of --nodes 2")
    where.add_argument("--no-device", action="store_true", help="a VM without any RDMA device")
    fabric = p.add_argument_group("fabric")
    fabric.add_argument("--rails", type=int, default=1, choices=range(1, 5), metavar="N", help="rails, 1 to 4 (default 1)")
    fabric.add_argument("--paths", type=int, default=1, choices=range(1, 9), metavar="K",
                        help="equal links of each rail of the wire, 1 to 8 (default 1)")
    fabric.add_argument("--rate", metavar="RATE", help="rate of the wire, each way, per rail and path: 100mbit")
    fabric.add_argument("--delay", metavar="TIME", help="delay of the wire, one way: 1ms")
    fabric.add_argument("--loss", metavar="PERCENT", help="packets lost on the wire, each way: 1%%")
    fabric.add_argument("--mtu", type=int, default=4200, help="MTU of the netdev (default 4200, RDMA MTU 4096)")
    machine = p.add_argument_group("machine")
    machine.add_argument("--cpus", type=int, metavar="N", help="virtual CPUs (default 2; 1 per node with --nodes)")
    machine.add_argument("--memory", metavar="SIZE", help="memory of the VM: 512M, 4G (default 2G; 1G per node)")
    machine.add_argument("--accel", choices=("kvm", "tcg"), help="use this one, without a test of which works")
    machine.add_argument("--icount", action="store_true",
                         help="count instructions as time: one CPU, repeatable figures for regressions")
    machine.add_argument("--plugin", metavar="FILE[,KEY=VALUE...]",
                         help="a TCG plugin for QEMU, which then has no KVM (see tests/bench/map)")
    machine.add_argument("--root", metavar="DIR", help="DIR as root file system instead of the host's (weir-lab-root)")
    machine.add_argument("--arch", choices=ARCHES, default=HERE.name,
                         help=f"that machine, emulated where it is another (default here {HERE.name}); it has a root of "
                              "bookworm, unless --root names one")
    machine.add_argument("--kernel", metavar="SUITE", default="bookworm",
                         help="the kernel of this Debian release: bookworm (6.1, the default), trixie (6.12), testing; or of a "
                              "flavour of it: trixie-16k, of arm64 with pages of 16 KiB")
    machine.add_argument("--update-kernel", action="store_true", help="fetch a newer kernel package if apt has one")
    cmd = p.add_argument_group("command")
    cmd.add_argument("--shell", action="store_true", help="an interactive shell instead of CMD (Ctrl-] ends it by force)")
    cmd.add_argument("--timeout", type=float, default=600, metavar="SECONDS", help="for CMD (default 600; 0: none)")
    cmd.add_argument("--user", action="store_true",
                     help="run CMD unprivileged: as you, or as nobody if you are root")
    cmd.add_argument("--memlock", metavar="BYTES",
                     help="RLIMIT_MEMLOCK of CMD (default unlimited; with --host as it is here); does not bind "
                          "root: add --user")
    cmd.add_argument("--env", action="append", default=[], metavar="NAME[=VALUE]", help="pass a variable (repeatable)")
    cmd.add_argument("--build", metavar="DIR", help="where weir is built (default: WEIR_BUILD_DIR, or build/)")
    cmd.add_argument("--rw", action="append", default=[], metavar="DIR", help="share DIR writable (repeatable)")
    cmd.add_argument("--console", metavar="FILE", help="keep the guest kernel's log there (FILE.node1, .node2)")
    cmd.add_argument("-q", "--quiet", action="store_true", help="no progress lines; errors only")
    cmd.add_argument("-v", "--verbose", action="store_true", help="say how long the boot took")

    if "--" in argv:
        at = argv.index("--")
        argv, command = argv[:at], argv[at + 1:]
    else:
        command = None
    opt, rest = p.parse_known_args(argv)
    if rest:
        p.error(f"unknown: {' '.join(rest)} (CMD comes after --)")
    _check(p, opt, command)
    return opt, command or ["bash", "-l"]


def _check(p, opt, command):
    if not opt.shell and not command:
        p.error("no CMD (after --), and no --shell")
    if opt.host:
        of_a_vm = {"--wire": opt.wire, "--nodes": opt.nodes > 1, "--no-device": opt.no_device,
                   "--rails": opt.rails > 1, "--paths": opt.paths > 1, "--rate": opt.rate, "--delay": opt.delay, "--loss": opt.loss,
                   "--icount": opt.icount, "--plugin": opt.plugin, "--root": opt.root, "--arch": opt.arch != HERE.name}
        asked = ", ".join(option for option, value in of_a_vm.items() if value)
        if asked:
            p.error(f"--host has no fabric of its own: leave out {asked}")
    if opt.slurm and opt.nodes == 1:
        p.error("--slurm needs --nodes 2")
    if opt.wire and opt.nodes > 1:
        p.error("--wire and --nodes 2 are two fabrics: choose one")
    if (opt.rate or opt.delay or opt.loss) and not (opt.wire or opt.nodes > 1):
        p.error("--rate, --delay and --loss need --wire (or --nodes 2): loopback bypasses the wire")
    if opt.paths > 1 and not opt.wire:
        p.error("--paths needs --wire")
    if opt.icount and (opt.nodes > 1 or opt.accel == "kvm" or (opt.cpus or 1) > 1):
        p.error("--icount is for one VM with one CPU under TCG")
    if opt.plugin and (opt.nodes > 1 or opt.accel == "kvm"):
        p.error("--plugin is for one VM under TCG")
    if opt.memlock not in (None, "unlimited") and not opt.memlock.isdigit():
        p.error("--memlock takes bytes or 'unlimited'")
    if not 576 <= opt.mtu <= 9000:
        p.error("--mtu: 576 to 9000")
    if opt.memory and not re.fullmatch(r"\d+[MG]", opt.memory):
        p.error("--memory: as 512M or 2G")
    for d in opt.rw:
        if not os.path.isdir(d):
            p.error(f"--rw {d}: no such directory")
    if opt.root is not None:
        opt.root = os.path.realpath(opt.root)
        if opt.root == "/" or not os.path.exists(os.path.join(opt.root, "bin/sh")):
            p.error(f"--root {opt.root}: not another root file system")
    opt.memlock = opt.memlock or (None if opt.host else "unlimited")
    opt.arch = ARCHES[opt.arch]
    one = opt.nodes == 1
    opt.cpus = 1 if opt.icount else opt.cpus or (2 if one else 1)
    opt.memory = opt.memory or ("2G" if one else "1G")
    if opt.console:
        opt.console = os.path.abspath(opt.console)
