"""One QEMU process: its command line, and starting it so that it cannot outlive us."""

import os
import platform
import shutil
import socket
import subprocess

from .errors import SETUP, LabError
from . import job as jobs

CMDLINE = ("loglevel=5 panic=-1 oops=panic hung_task_panic=1 mitigations=off nokaslr "
           "rcupdate.rcu_cpu_stall_timeout=60 random.trust_cpu=on")


def base_args(arch, accel, kernel, initramfs, cpus, memory, append, icount=False):
    if accel == "kvm":
        how = ["-accel", "kvm", "-cpu", "host"]
    else:
        how = ["-accel", f"tcg,thread={'single' if icount else 'multi'}", "-cpu", arch.tcg_cpu]
    if icount:
        how += ["-icount", "shift=2,sleep=on"]
    return [
        arch.qemu, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
        "-machine", arch.machine, *how, "-smp", str(cpus), "-m", memory,
        "-kernel", str(kernel / "vmlinux"), "-initrd", str(initramfs),
        "-append", f"console={arch.console} {CMDLINE} {arch.cmdline} {append}",
    ]


class Vm:
    """node: 1 or 2. Streams to read from the guest: console, ctl, and on node 1 out and err or tty."""

    def __init__(self, opt, accel, kernel, initramfs, run_dir, node):
        self.node = node
        self.streams = {}
        self._guest_ends = []
        groups = ["base", "net"]
        groups += [] if opt.no_device else ["rdma"]
        groups += ["wire"] if opt.wire else []
        groups += ["shape"] if opt.wire or opt.nodes > 1 else []
        append = f"weir.load={','.join(groups)} weir.node={node}"
        args = base_args(opt.arch, accel, kernel, initramfs, opt.cpus, opt.memory, append, opt.icount)

        args += ["-chardev", self._stream("console"), "-serial", "chardev:console",
                 "-device", "virtio-serial-pci", "-device", "virtio-rng-pci",
                 "-chardev", self._stream("ctl"), "-device", "virtserialport,chardev=ctl,nr=1,name=weir.ctl"]
        if node == 1 and opt.shell:
            args += ["-chardev", self._stream("tty"), "-device", "virtconsole,chardev=tty,nr=0,name=weir.tty"]
        elif node == 1:
            for nr, name in ((2, "out"), (3, "err")):
                args += ["-chardev", self._stream(name),
                         "-device", f"virtserialport,chardev={name},nr={nr},name=weir.{name}"]

        args += self._share("root", opt.root or "/", "readonly=on,multidevs=remap")
        args += self._share("job", run_dir, "readonly=on,multidevs=remap")
        for i, (d, writable) in enumerate(jobs.shares(opt)):
            args += self._share(f"share{i}", d, "multidevs=remap" if writable else "readonly=on,multidevs=remap")
        args += self._nics(opt, run_dir)
        args += ["-plugin", f"file={opt.plugin}"] if opt.plugin else []
        self.args = args
        self.counts_instructions = opt.icount

    def _stream(self, name):
        ours, guest = socket.socketpair()
        self.streams[name] = ours
        self._guest_ends.append(guest)
        return f"socket,id={name},fd={guest.fileno()}"

    def _share(self, tag, path, flags):
        path = path.replace(",", ",,")
        return ["-fsdev", f"local,id={tag},path={path},security_model=none,{flags}",
                "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]

    def _nics(self, opt, run_dir):
        """host_mtu lets the guest go to an MTU that carries 4096-byte RDMA packets; no
        option rom, which would cost a second of boot."""
        nodes = opt.nodes > 1
        args = []
        for i in range(1 if opt.wire else opt.rails + nodes):
            if nodes:
                # dgram: -netdev socket (TCP) costs 23 to 48 ms a message
                def sock(n, i=i):
                    return f"{run_dir}/net{i}.{n}"
                net = (f"dgram,id=net{i},local.type=unix,local.path={sock(self.node)},"
                       f"remote.type=unix,remote.path={sock(3 - self.node)}")
            else:
                net = f"hubport,id=net{i},hubid={i}"    # a hub with nobody else on it
            args += ["-netdev", net, "-device",
                     f"virtio-net-pci,netdev=net{i},host_mtu=9000,romfile=,mac=52:54:00:77:0{i}:0{self.node}"]
        return args

    def start(self):
        try:
            self.process = spawn(self.args, [s.fileno() for s in self._guest_ends])
        finally:
            for s in self._guest_ends:
                s.close()
        if not self.counts_instructions:  # whose time does not pass when others run
            prefer(self.process.pid)

    def kill(self):
        if getattr(self, "process", None):
            self.process.kill()
            self.process.wait()


def spawn(args, fds=(), **kw):
    """Start QEMU so that it dies with us, even when we are killed. Its own session keeps the
    terminal's Ctrl-C for us and gives it an autogroup whose priority can be set."""
    for tool in (args[0], "setpriv"):
        if not shutil.which(tool):
            raise LabError(f"{tool} is not installed (run {SETUP})")
    kw.setdefault("stdout", subprocess.DEVNULL)
    kw.setdefault("stderr", subprocess.PIPE)
    return subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "--", *args],
                            stdin=subprocess.DEVNULL, pass_fds=fds, start_new_session=True, **kw)


def prefer(pid):
    """Raise its priority where that is permitted. Plain nice does nothing under autogroup."""
    try:
        with open(f"/proc/{pid}/autogroup", "w") as f:
            f.write("-15")
    except OSError:
        pass


def prefer_main_loop(pid):
    """Two VMs: the thread that moves packets must not wait for vCPU threads. Only once those
    exist, for they would inherit it."""
    try:
        os.sched_setscheduler(pid, os.SCHED_FIFO, os.sched_param(1))
    except OSError:
        pass


# -- does KVM work here? -------------------------------------------------------

PROBE_SECONDS = 6


def choose_accel(arch, cache, kernel, initramfs, say):
    """kvm if a guest really boots with it, else tcg. /dev/kvm may be there and not run a
    stock kernel, so it is tried once; the verdict is kept per host kernel, QEMU and guest kernel."""
    if arch.is_foreign or not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg"
    key = f"{platform.release()} {os.path.getmtime(shutil.which(arch.qemu) or '/')} {kernel.name}"
    verdict = cache / "accel"
    try:
        known, _, accel = verdict.read_text().strip().rpartition(" = ")
        if known == key and accel in ("kvm", "tcg"):
            return accel
    except OSError:
        pass
    say("trying KVM (once)")
    args = base_args(arch, "kvm", kernel, initramfs, 1, "512M", "weir.probe") + ["-serial", "stdio"]
    process = spawn(args, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        output, _ = process.communicate(timeout=PROBE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
    accel = "kvm" if b"weir-probe-ok" in output else "tcg"
    tmp = cache / f"accel.{os.getpid()}"
    tmp.write_text(f"{key} = {accel}\n")
    tmp.rename(verdict)
    say(f"KVM {'works' if accel == 'kvm' else 'does not boot a guest here: using TCG'}")
    return accel
