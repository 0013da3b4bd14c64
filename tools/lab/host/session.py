"""One run: start the VMs, carry the streams, decide the exit code.

A thread per stream moves bytes; the main thread alone decides, from a queue of events.
"""

import os
import queue
import re
import secrets
import shutil
import signal
import sys
import tempfile
import termios
import threading
import time
import tty

from . import image, job, rundir, vm
from .errors import EXIT_TIMEOUT, BootStalled, LabError

BOOT_SECONDS = 120

COMPLAINT = re.compile(
    rb"Kernel panic|WARNING: CPU:|BUG: |Oops: |kernel BUG at|general protection fault|"
    rb"INFO: task .* blocked|rcu: INFO: .*(?:stall|detected)|rcu_.* kthread starved|watchdog: BUG|"
    rb"unregister_netdevice: waiting|Out of memory: Killed|list_(?:add|del) corruption|lab: init: ")

# What a kernel says that stands still. While it boots, the emulator is to blame.
STALL = re.compile(r"soft lockup|stall|kthread starved|blocked for more than")


class Session:
    def __init__(self, opt, cmd, say):
        self.opt, self.cmd, self.say = opt, cmd, say
        self.events = queue.Queue()     # (kind, node, value)
        self.mark = "weir-" + secrets.token_hex(24)
        self.vms = []
        self.console_path = None
        self.threads = {}

    def run(self):
        kernel, initramfs = image.prepare(self.say, self.opt.kernel, self.opt.update_kernel, self.opt.arch)
        cache = image.cache_dir()
        accel = self.opt.accel or vm.choose_accel(self.opt.arch, cache, kernel, initramfs, self.say)
        if self.opt.icount or self.opt.plugin:
            accel = "tcg"
        self.run_dir = rundir.make()
        saved_tty = None
        started = time.monotonic()
        try:
            self.console_path = self.opt.console or os.path.join(self.run_dir, "console")
            job.write(self.run_dir, self.opt, self.cmd, self.mark)
            for node in range(1, self.opt.nodes + 1):
                self.vms.append(vm.Vm(self.opt, accel, kernel, initramfs, self.run_dir, node))
            for machine in self.vms:
                machine.start()
                self._listen(machine)
            self._await_ready()
            if self.opt.verbose:
                self.say(f"{accel}: ready after {time.monotonic() - started:.1f} s")
            if self.opt.shell:
                saved_tty = raw_terminal()
                threading.Thread(target=self._keyboard, daemon=True).start()
            code = self._await_exit()
            for name in ("out", "err"):
                if name in self.threads:
                    self.threads[name].join()
            time.sleep(0.05)            # a last word of the kernel
            self._check_kernel()
            return code
        except LabError as e:
            self._stop()
            raise type(e)(f"{e}{self._keep_console()}", e.code) from None
        finally:
            self._stop()
            if saved_tty:
                termios.tcsetattr(0, termios.TCSADRAIN, saved_tty)
            shutil.rmtree(self.run_dir, ignore_errors=True)

    # -- streams

    def _listen(self, machine):
        if machine.node == 1 and "out" in machine.streams:
            self._thread("out", self._copy, machine.streams["out"], 1)
            self._thread("err", self._copy, machine.streams["err"], 2)
        if "tty" in machine.streams:
            self._thread("tty", self._screen, machine.streams["tty"])
        self._thread(f"ctl{machine.node}", self._control, machine)
        self._thread(f"console{machine.node}", self._console, machine)

    def _thread(self, name, function, *args):
        thread = threading.Thread(target=function, args=args, daemon=True)
        self.threads[name] = thread
        thread.start()

    def _copy(self, sock, fd):
        """Guest to our stdout or stderr, up to the end mark, which ends the stream."""
        mark, held = self.mark.encode(), b""
        while True:
            data = receive(sock)
            if not data:
                break
            held += data
            end = held.find(mark)
            if end >= 0:
                self._write(fd, held[:end])
                return
            keep = partial_mark(held, mark)
            self._write(fd, held[:len(held) - keep])
            held = held[len(held) - keep:]
        self._write(fd, held)

    def _write(self, fd, data):
        try:
            while data:
                data = data[os.write(fd, data):]
        except OSError as e:            # our reader has gone: so shall we, as any filter does
            self.events.put(("closed", 1, e))

    def _screen(self, sock):
        while data := receive(sock):
            self._write(1, data)

    def _keyboard(self):
        sock = self.vms[0].streams["tty"]
        try:
            while data := os.read(0, 4096):
                if data == b"\x1d":                   # Ctrl-], should the guest hang
                    os.kill(os.getpid(), signal.SIGTERM)
                sock.sendall(data)
        except OSError:
            pass

    def _control(self, machine):
        pending = b""
        while data := receive(machine.streams["ctl"]):
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                word, _, rest = line.decode(errors="replace").partition(" ")
                self.events.put((word, machine.node, rest))
        # QEMU is gone; say so when the console has been read to its end.
        self.threads[f"console{machine.node}"].join(2)
        errors = machine.process.stderr.read(4096).decode(errors="replace").strip()
        self.events.put(("gone", machine.node, errors.splitlines()[-1] if errors else ""))

    def _console_file(self, machine):
        return self.console_path + (f".node{machine.node}" if self.opt.nodes > 1 else "")

    def _console(self, machine):
        path = self._console_file(machine)
        pending = b""
        with open(path, "wb", buffering=0) as log:
            while data := receive(machine.streams["console"]):
                log.write(data)
                *lines, pending = (pending + data).split(b"\n")
                for line in lines:
                    if COMPLAINT.search(line):
                        self._complain(machine.node, line)

    def _complain(self, node, line):
        text = re.sub(r"^\[[ 0-9.]*\] *", "", line.decode(errors="replace").strip())
        self.events.put(("complaint", node, text))

    # -- decisions

    complaint = None

    def _next(self, deadline):
        """The next event, or None at the deadline. Remembers the kernel's first complaint."""
        while True:
            try:
                event = self.events.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                return None
            kind, node, value = event
            if kind == "complaint":
                self.complaint = self.complaint or (node, value)
                continue
            if kind == "fail":
                raise LabError(f"node{node}: {value}" if self.opt.nodes > 1 else value)
            if kind == "gone":
                self._check_kernel()
                raise LabError(f"QEMU ended: {value or 'no reason given'}")
            if kind == "closed":
                if isinstance(value, BrokenPipeError):
                    sys.exit(128 + signal.SIGPIPE)
                raise LabError("cannot write the output: " + value.strerror)
            return event

    def _await_ready(self):
        waiting = {m.node for m in self.vms}
        deadline = time.monotonic() + BOOT_SECONDS
        while waiting:
            event = self._next(min(deadline, time.monotonic() + 1))
            stands_still = self.complaint and STALL.search(self.complaint[1])
            if event is None and (stands_still or time.monotonic() >= deadline):
                if not stands_still:
                    self._check_kernel()
                why = f"stood still when it booted: {self.complaint[1]}" if stands_still else \
                    f"did not boot within {BOOT_SECONDS} s"
                raise (BootStalled if len(waiting) == len(self.vms) else LabError)(f"the guest {why}")
            if event is None:
                continue
            kind, node, _ = event
            if kind == "boot" and self.opt.nodes > 1:
                vm.prefer_main_loop(self.vms[node - 1].process.pid)
            if kind == "ready":
                waiting.discard(node)

    def _await_exit(self):
        limit = self.opt.timeout
        deadline = time.monotonic() + limit if limit and not self.opt.shell else float("inf")
        while True:
            event = self._next(min(deadline, time.monotonic() + 3600))
            if event is None and time.monotonic() >= deadline:
                self._check_kernel()
                raise LabError(f"time limit of {limit:g} s reached", EXIT_TIMEOUT)
            if event and event[0] == "exit":
                return int(event[2])

    def _check_kernel(self):
        while not self.events.empty():
            kind, node, value = self.events.get()
            if kind == "complaint":
                self.complaint = self.complaint or (node, value)
        if self.complaint:
            node, text = self.complaint
            where = f" of node{node}" if self.opt.nodes > 1 else ""
            raise LabError(f"the guest kernel{where} complained: {text}")

    def _stop(self):
        for machine in self.vms:
            machine.kill()

    def _keep_console(self):
        """After a failure the console log survives the run directory."""
        if not self.vms:
            return ""
        for name, thread in self.threads.items():
            if name.startswith("console"):
                thread.join(2)
        kept = []
        for machine in self.vms:
            path = self._console_file(machine)
            if not self.opt.console:
                fd, saved = tempfile.mkstemp(prefix="weir-lab-", suffix=f".{os.path.basename(path)}.log")
                os.close(fd)
                path = shutil.move(path, saved)
            kept.append(path)
        return f" (console: {', '.join(kept)})"


def receive(sock):
    try:
        return sock.recv(65536)
    except OSError:
        return b""


def partial_mark(data, mark):
    """How many of data's last bytes may be the beginning of the mark."""
    for n in range(min(len(mark) - 1, len(data)), 0, -1):
        if data.endswith(mark[:n]):
            return n
    return 0


def raw_terminal():
    if not os.isatty(0):
        return None
    saved = termios.tcgetattr(0)
    tty.setraw(0)
    return saved


def end_on_signals():
    """SIGTERM and SIGHUP end us as Ctrl-C does: by an exception that cleans up."""
    def stop(number, _):
        for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(n, signal.SIG_IGN)    # a second one must not break the cleaning
        sys.exit(128 + number)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
