"""The guest's kernel and initramfs, built once and kept in the cache.

Two layers, so that editing a guest script never downloads a kernel again:

    kernel-<suite>-<release>-<hash of MODULES>/   vmlinux, *.ko, one load list per module group,
                                                  and of another machine than this its busybox
    initramfs-<hash of kernel and guest files>.cpio

Every entry is made under a temporary name and renamed into place while the
cache lock is held, so concurrent runs see all of it or nothing.
"""

import contextlib
import fcntl
import hashlib
import lzma
import os
import re
import shutil
import struct
import subprocess
import tempfile
import time
import zlib
from pathlib import Path

from .apt import Packages
from .arch import HERE
from .errors import SETUP, LabError
from .tool import tool

GUEST_DIR = Path(__file__).resolve().parent.parent / "guest"

# What the guest loads, by group, in load order; dependencies are added.
MODULES = {
    "base": ["virtio_pci", "virtio_console", "virtio_rng", "9pnet_virtio", "9p", "overlay"],
    "net": ["virtio_net", "macvlan"],  # macvlan: GIDs in the network namespace of a container
    # rxe needs a crc32 shash. The generic one: under TCG crc32-pclmul is slower. Newer kernels need none.
    "rdma": ["crc32_generic?", "rdma_rxe", "rdma_ucm", "ib_umad"],
    "wire": ["veth"],
    "shape": ["sch_netem", "sch_prio", "cls_flow"],
}

# The Debian release whose kernel is booted: 6.1. From 6.12 (trixie) on rxe runs in workqueues, three times
# slower per message.
SUITE = "bookworm"
SERIES = {"bookworm": "6.1."}   # found on this machine, too, if it is of that release; of others the newest


def cache_dir() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    path = Path(base) / "weir" / "lab"
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise LabError(f"cannot create the cache {path}: {e.strerror} (set XDG_CACHE_HOME)") from e
    return path


@contextlib.contextmanager
def cache_lock(cache: Path):
    with open(cache / "lock", "w") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


def prepare(say, suite=SUITE, update=False, arch=HERE):
    """The kernel directory and the initramfs to boot, made now if missing."""
    cache = cache_dir()
    with cache_lock(cache):
        for left in cache.glob("tmp-*"):        # by a run that was killed: nobody else holds the lock
            shutil.rmtree(left, ignore_errors=True)
        kernel = _kernel(cache, say, suite, update, arch)
        return kernel, _initramfs(cache, kernel)


# -- kernel ------------------------------------------------------------------

def _kernel(cache, say, suite, update, arch):
    tag = hashlib.sha256(repr(MODULES).encode()).hexdigest()[:8]
    have = sorted(cache.glob(f"kernel-{suite}-*-{_kind(suite, arch)}-{tag}"), key=lambda p: p.stat().st_mtime)
    if have and not update:
        return have[-1]
    with tempfile.TemporaryDirectory(dir=cache, prefix="tmp-") as tmp:
        tmp = Path(tmp)
        packages, package = _package(tmp, say, suite, arch)
        release = package.removeprefix("linux-image-")
        target = cache / f"kernel-{suite}-{release}-{tag}"
        if target.exists():
            return target
        say(f"fetching {package} (once)")
        # Newer ones are empty, and depend on those with the kernel, its modules, and what is built in.
        parts = [f"linux-{part}-{release}" for part in ("base", "binary", "modules")]
        for name in [package, *(p for p in packages.depends(package) if p in parts)]:
            packages.unpack(name, tmp / "root")
        out = tmp / "out"
        out.mkdir()
        _pick_modules(tmp / "root", release, out)
        (out / "vmlinux").write_bytes(_vmlinux(next((tmp / "root").glob("**/vmlinuz*")).read_bytes()))
        if arch.is_foreign:
            packages.unpack("busybox-static", tmp / "busybox")
            shutil.copy(next((tmp / "busybox").glob("**/bin/busybox")), out / "busybox")
        out.rename(target)
    return target


def _kind(wanted, arch):
    """How names of its packages end."""
    return "-".join([arch.name, *wanted.split("-")[1:]])


def _package(tmp, say, wanted, arch):
    """The newest kernel of a release or SUITE-FLAVOUR, and the packages that it is one of."""
    suite, kind = wanted.split("-")[0], _kind(wanted, arch)
    series = SERIES.get(suite, "")
    if series and not arch.is_foreign and (found := _newest(here := Packages(), series, kind)):
        return here, found
    there = Packages(suite, tmp, say, arch)
    if found := _newest(there, series, kind):
        return there, found
    raise LabError(f"Debian's {suite} has no linux-image-{series}*-{kind}")


def _newest(packages, series, kind):
    """What the release would install, else the highest that it has."""
    found = [p for p in packages.depends(f"linux-image-{kind}") if p.startswith(f"linux-image-{series}")]
    if not found:
        found = [n for n in packages.names(f"linux-image-{series}")
                 if re.fullmatch(rf"linux-image-{re.escape(series)}[0-9.-]+-{kind}", n)]
    return max(found, key=lambda n: [int(x) for x in re.findall(r"\d+", n)], default=None)


def _pick_modules(root, release, out):
    if not (root / "lib").exists():      # usr-merged
        (root / "lib").symlink_to("usr/lib")
    lib = root / "lib/modules" / release
    tool(["/sbin/depmod", "-b", str(root), release], "cannot index the kernel's modules")
    seen = set()
    for group, names in MODULES.items():
        files = []
        for name in names:
            try:
                shown = tool(["/sbin/modprobe", "-d", str(root), "-S", release, "-C", "/dev/null",
                              "--show-depends", name.rstrip("?")], f"kernel {release} has no module {name}")
            except LabError:
                if name.endswith("?"):
                    continue
                raise
            for line in shown.splitlines():
                path = Path(line.split()[1]) if line.startswith("insmod ") else None
                if path and path.name not in seen:
                    seen.add(path.name)
                    module = path.read_bytes()
                    if path.suffix == ".xz":
                        path, module = path.with_suffix(""), lzma.decompress(module)
                    files.append(path.name)
                    (out / path.name).write_bytes(module)
        (out / f"{group}.list").write_text("".join(f + "\n" for f in files))
    if not lib.is_dir():
        raise LabError(f"kernel {release}: no modules in its package")


def _vmlinux(bzimage):
    """The ELF inside a bzImage: QEMU starts it by PVH, which saves the guest unpacking xz under TCG. Of what is
    packed for EFI (zboot) the image: QEMU 7.2 cannot unpack it."""
    if bzimage[4:8] == b"zimg":
        start, length = struct.unpack_from("<II", bzimage, 8)
        return zlib.decompress(bzimage[start:start + length], wbits=31)
    start = bzimage.find(b"\xfd7zXZ\0")
    if start < 0 or bzimage[0x202:0x206] != b"HdrS":
        return bzimage
    elf = lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(bzimage[start:])
    return elf if elf[:4] == b"\x7fELF" else bzimage


# -- initramfs ---------------------------------------------------------------

def _initramfs(cache, kernel):
    busybox = kernel / "busybox"
    busybox = busybox if busybox.exists() else _busybox()
    guest = sorted(p for p in GUEST_DIR.iterdir() if p.is_file())
    digest = hashlib.sha256(kernel.name.encode())
    for path in [busybox, *guest, Path(__file__)]:
        digest.update(path.name.encode() + path.read_bytes())
    target = cache / f"initramfs-{digest.hexdigest()[:16]}.cpio"
    if target.exists():
        os.utime(target)
        return target
    with tempfile.TemporaryDirectory(dir=cache, prefix="tmp-") as tmp:
        stage = Path(tmp) / "root"
        for d in ("bin", "dev", "proc", "sys", "host", "job", "rw", "new", "lab", "modules"):
            (stage / d).mkdir(parents=True)
        shutil.copy(busybox, stage / "bin/busybox")
        for path in guest:
            shutil.copy(path, stage / "lab" / path.name)
            os.chmod(stage / "lab" / path.name, 0o755)
        os.rename(stage / "lab/init", stage / "init")
        for path in kernel.iterdir():
            if path.suffix in (".ko", ".list"):
                shutil.copy(path, stage / "modules" / path.name)
        names = "".join(f"{p.relative_to(stage)}\n" for p in sorted(stage.rglob("*")))
        done = Path(tmp) / "cpio"
        with open(done, "wb") as f:
            try:
                subprocess.run(["cpio", "-o", "-H", "newc", "-R", "0:0", "--quiet"], cwd=stage,
                               input=names.encode(), stdout=f, check=True)
            except (OSError, subprocess.CalledProcessError) as e:
                raise LabError(f"cannot build the initramfs: {e} (run {SETUP})") from e
        done.rename(target)
    week = time.time() - 7 * 86400
    for old in cache.glob("initramfs-*.cpio"):
        if old != target and old.stat().st_mtime < week:
            old.unlink()
    return target


def _busybox():
    found = shutil.which("busybox", path=os.defpath + ":/bin:/usr/bin")
    if not found:
        raise LabError(f"busybox is not installed (busybox-static; run {SETUP})")
    path = Path(found).resolve()
    if b"ld-linux" in path.read_bytes()[:4096]:
        raise LabError(f"busybox is not static (install busybox-static; run {SETUP})")
    return path
