"""Raw verbs: what the device does without MPI. perftest, one process a core.

Latencies: ib_send_lat and the like, their median ("typical"). Rate: ib_send_bw over RC, one
ibv_post_send a message (no --post_list), as much in flight as the MPI program has, and a completion
for every 16th message, as weir asks for it (any number from 1 to 64 gives the same within 2 %). Not
inlined: perftest does not know rxe as a device that can. Bandwidth: ib_read_bw, a completion for
every read. A write until it is over: ib_write_bw, one at a time.
"""

import subprocess
import time

from rig.start import Failed, end, run

DEVICE = "rxe0"
MIB = 1 << 20
TIMEOUT_S = 60
LISTEN = "0A"  # in /proc/net/tcp

_port = 18500


def _listening(port):
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table) as lines:
            for line in list(lines)[1:]:
                words = line.split()
                if words[1].endswith(f":{port:04X}") and words[3] == LISTEN:
                    return True
    return False


def _pair(words):
    """Server on core 0, client on core 1: where mpirun --bind-to core puts two ranks."""
    global _port
    _port += 1  # a new one each time: the last may be in TIME_WAIT
    words = words + ["-F", "-d", DEVICE, "-p", str(_port)]
    try:
        server = subprocess.Popen(["taskset", "-c", "0"] + words, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  start_new_session=True)
    except OSError as error:
        raise Failed(f"{words[0]}: {error.strerror}") from error
    try:
        deadline_s = time.monotonic() + 10
        while not _listening(_port):
            if server.poll() is not None or time.monotonic() > deadline_s:
                raise Failed(f"{words[0]}: its server does not listen")
            time.sleep(0.02)
        text = run(["taskset", "-c", "1"] + words + ["localhost"], TIMEOUT_S)
        server.wait(5)
        return text
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{words[0]}: its server does not end") from error
    finally:
        if server.poll() is None:
            end(server)


def _row(text, size_bytes):
    """The numbers of the line that begins with the size."""
    for line in text.splitlines():
        words = line.split()
        if words and words[0] == str(size_bytes):
            try:
                return [float(word) for word in words]
            except ValueError:
                continue
    raise Failed(f"perftest printed no line for {size_bytes} bytes")


def _latency(program, size_bytes, count):
    text = _pair([program, "-c", "RC", "-s", str(size_bytes), "-n", str(count)])
    return _row(text, size_bytes)[4]  # bytes, iterations, t_min, t_max, t_typical


def latency_us(size_bytes, count):
    return _latency("ib_send_lat", size_bytes, count)


def write_latency_us(size_bytes, count):
    """Half a round trip of writes, each seen by the peer in its memory."""
    return _latency("ib_write_lat", size_bytes, count)


def read_latency_us(size_bytes, count):
    """From the post to the completion."""
    return _latency("ib_read_lat", size_bytes, count)


def fetch_add_us(count):
    text = _pair(["ib_atomic_lat", "-A", "FETCH_AND_ADD", "-n", str(count)])
    return _row(text, 8)[4]


def _stream(program, size_bytes, count, depth, *options):
    text = _pair([program, "-c", "RC", "-s", str(size_bytes), "-n", str(max(count, depth)),
                  "-t", str(depth), *options])
    return _row(text, size_bytes)  # bytes, iterations, peak MiB/s, average MiB/s, Mmessages/s


def _per_s(program, size_bytes, count, in_flight):
    return _stream(program, size_bytes, count, in_flight, "-Q", str(min(16, in_flight)))[4] * 1e6


def messages_per_s(size_bytes, count, in_flight):
    return _per_s("ib_send_bw", size_bytes, count, in_flight)


def writes_per_s(size_bytes, count, in_flight):
    return _per_s("ib_write_bw", size_bytes, count, in_flight)


def write_us(size_bytes, count):
    """From the post to the completion, as put and flush."""
    return 1 / _stream("ib_write_bw", size_bytes, count, 1, "-Q", "1")[4]


def read_mb_per_s(size_bytes, count, reads, both):
    """Both ways: the sum."""
    return _stream("ib_read_bw", size_bytes, count, reads, "-o", str(reads), "-Q", "1",
                   *(["-b"] if both else []))[3] * MIB / 1e6
