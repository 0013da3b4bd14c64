"""Adapters and GID tables of machines: which port and which GID weir takes there, and what it says of the others."""

import pytest

from harness.programs import judge, sh

pytestmark = pytest.mark.long

LIMIT_S = 200

RING = "mpirun -np 2 --mca pml ob1 --mca btl weir,self --mca btl_base_verbose 10 ring"

# await CONDITION: waits for what the kernel does in its own time.
AWAIT = "await() { for i in $(seq 400); do eval \"$1\" && return; sleep 0.05; done; echo no \"$1\"; exit 9; }; "
GIDS = "cat /sys/class/infiniband/rxe0/ports/1/gids/*"


# The first adapter of the list is rxe0, and as fast as rxe1.
@pytest.mark.lab("rails")
def test_iwarp_beside_roce(build, tmp_path):
    """It is declined in a line, and RoCE is used."""
    adapter = f"export LD_PRELOAD='{build}/mpi/adapter.so' ADAPTER=iwarp; "
    done = sh(f"{adapter} weir info && {RING} && WEIR_DEVICE=rxe0 {RING}", build, tmp_path, LIMIT_S)
    judge(done, False,
          [r"^  port rxe0:1  iWARP active", r"^      not usable: iWARP: weir runs on InfiniBand and RoCE$",
           r"^\* port rxe1:1  RoCE active", r"uses rxe1:1 with profile rxe", r"ring: ok",
           r"no usable RDMA port for device 'rxe0'; there is: rxe0:1 \(iWARP: weir runs on InfiniBand and RoCE\), "
           r"rxe1:1"],
          [r"(?s)ring: ok.*ring: ok", r"uses rxe0"])


@pytest.mark.lab("a kernel of our own")
@pytest.mark.parametrize("command, succeeds, says, never", [
    pytest.param("trap 'ip netns delete weir; ip link delete mv0 2>/dev/null' EXIT; "
                 "ip netns add weir && ip link add mv0 link eth0 type macvlan mode bridge && "
                 "ip link set mv0 netns weir && ip -n weir addr add 10.77.0.50/24 dev mv0 && "
                 "ip -n weir link set mv0 up && ip -n weir link set lo up && "
                 f"await '{GIDS} | grep -q ffff:0a4d:0032'; "
                 f"ip netns exec weir sh -c 'weir info && {RING.replace('-np 2', '-np 1')}' && "
                 f"ip -n weir addr flush dev mv0 && ip netns exec weir {RING.replace('-np 2', '-np 1')}",
                 True,
                 [r"\* port rxe0:1  RoCE active.*, interface mv0, address 10\.77\.0\.50$",
                  r"\* GID +\d+ +RoCEv2 +::ffff:10\.77\.0\.50 ",
                  r"GID +\d+ +RoCEv2 +::ffff:10\.77\.0\.1 +its address belongs to another network namespace",
                  r"uses rxe0:1 with profile rxe",
                  r"there is: rxe0:1 \(no GID with an address of this network namespace\)"],
                 [r"(?s)uses rxe0:1.*uses rxe0:1"],
                 id="a GID table with the addresses of other network namespaces: the one of our own"),
    pytest.param("trap 'ip addr flush to 10.79.0.0/16 dev eth0' EXIT; "
                 "for i in $(seq 300); do echo addr add 10.79.$((i / 200)).$((i % 200 + 1))/32 dev eth0; done | "
                 "ip -batch - && "
                 f"await '[ $({GIDS} | grep -c ffff:0a4f) = 300 ]'; {RING}",
                 True, [r"uses rxe0:1 with profile rxe", r"ring: ok"], [],
                 id="more than 256 GIDs"),
])
def test_what_is_taken(command, succeeds, says, never, build, tmp_path):
    """The job uses what it can, and `weir info` says why not the rest."""
    judge(sh(AWAIT + command, build, tmp_path, LIMIT_S), succeeds, says, never)
