"""Applications of Debian, as users start them, each with a small input whose result is known.

Each run checks the result and takes the application's own clock, without MPI_Init. A preloaded
library tells the peak of resident memory and weir's counters when MPI ends.
"""

import os
import re
import shutil

from rig import hpcc, icount, peers
from rig.measures import Group, Metric, PROGRAM_TIMEOUT_S, counter
from rig.start import Failed, cause, run

INPUTS = os.path.normpath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..",
                                       "applications"))
READER = "pvars_at_finalize.so"
PROGRAMS = (READER,)
WORK = "/tmp"  # of every node
TIMEOUT_S = 2 * PROGRAM_TIMEOUT_S
SHAPES = (2, 4)  # ranks; two have a core each
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class Application:
    """`words(ranks)`: what follows the program; `values(text, ranks)`: {key: value} of what it printed,
    once that is right."""

    def __init__(self, key, title, package, programs, words, values, metrics):
        self.key, self.title, self.package, self.programs = key, title, package, programs
        self.words, self.values, self.metrics = words, values, metrics

    def program(self):
        for name in self.programs:
            if path := shutil.which(name):
                return path
        raise Failed(f"there is no {self.programs[0]} (apt-get install {self.package})")


def _input(name):
    return os.path.join(INPUTS, name)


def _number(pattern, text, what):
    found = re.findall(pattern, text, re.M)
    if not found:
        raise Failed(f"no {what} in its output: {cause(text[-2000:])}", text)
    return float(found[-1])


def _expect(value, known, tolerance, what):
    if not abs(value - known) <= tolerance:
        raise Failed(f"{what} is {value}, not {known}")


def _melt(cells, steps, energies):
    """LAMMPS. `energies`: an atom's at the end, by ranks, for they order the sums."""
    def words(_):
        return ["-in", _input("melt.lmp"), "-log", "none", "-var", "cells", cells, "-var", "steps", steps]

    def values(text, ranks):
        last = _number(rf"^ +{steps} +\S+ +\S+ +\S+ +(\S+) +\S+ *$", text, "energy at the end")
        _expect(last, energies[ranks], 2e-7, "the energy")
        return {"seconds": _number(r"^Loop time of ([\d.]+) on", text, "time")}

    return words, values


def _silicon(text, _):
    _expect(_number(r"^! +total energy += +(-?[\d.]+) Ry", text, "energy"), SILICON_RY, 1e-4, "the energy")
    minutes, seconds = re.findall(r"^ +PWSCF +: .*CPU +(?:(\d+)m)? *([\d.]+)s WALL", text, re.M)[-1]
    return {"seconds": 60 * float(minutes or 0) + float(seconds)}


def _nwchem(text, _):
    _expect(_number(r"Total SCF energy = +(-?[\d.]+)", text, "energy"), WATER_HARTREE_FOCK, 1e-5, "the energy")
    return {"seconds": _number(r"Total times .*wall: +([\d.]+)s", text, "time")}


def _cp2k(text, _):
    _expect(_number(r"ENERGY\| Total FORCE_EVAL .*: +(-?[\d.]+)", text, "energy"), WATER_PADE, 1e-5,
            "the energy")
    return {"seconds": _number(r"^ CP2K +\d+ +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+ +([\d.]+)", text, "time")}


def _meep(text, _):
    """The flux of the pulse at its middle."""
    _expect(_number(r"^flux1:, 0\.15, (\S+)", text, "flux"), WAVEGUIDE_FLUX, abs(WAVEGUIDE_FLUX) * 1e-6,
            "the flux")
    return {"seconds": _number(r"Elapsed run time = ([\d.]+) s", text, "time")}


# As one rank over shared memory computes them.
SILICON_RY = -15.7944956
WATER_HARTREE_FOCK = -76.0090991
WATER_PADE = -16.9778569
WAVEGUIDE_FLUX = 3.91547688e-7

SECONDS = [("seconds", "", "s", False)]
HPCC = (("HPL_Tflops", "HPL", 1e3, "Gflop/s"), ("PTRANS_GBs", "PTRANS", 1e3, "MB/s"),
        ("MPIRandomAccess_GUPs", "RandomAccess", 1e6, "kup/s"), ("MPIFFT_Gflops", "FFT", 1e3, "Mflop/s"))


def _hpcc_words(ranks):
    report = os.path.join(WORK, hpcc.REPORT)
    if os.path.exists(report):
        os.unlink(report)  # it would be continued
    hpcc.prepare(WORK, 100, (2, ranks // 2))
    return []


def _hpcc(_, __):
    text = hpcc.report(WORK)
    return {key: _number(rf"^{key}=(\S+)", text, key) * scale for key, _, scale, _ in HPCC}


APPLICATIONS = (
    Application("melt", "LAMMPS, 500 atoms", "lammps", ["lmp"], *_melt(5, 500, {2: -2.2920722, 4: -2.2906542}), SECONDS),
    Application("melt-large", "LAMMPS, 32000 atoms", "lammps", ["lmp"], *_melt(20, 20, {2: -2.2842408, 4: -2.2840505}), SECONDS),
    Application("espresso", "Quantum ESPRESSO, silicon", "quantum-espresso quantum-espresso-data", ["pw.x"],
                lambda _: ["-in", _input("silicon.in")], _silicon, SECONDS),
    Application("nwchem", "NWChem, water", "nwchem-openmpi", ["nwchem.openmpi", "nwchem"],
                lambda _: [_input("water.nw")], _nwchem, SECONDS),
    Application("cp2k", "CP2K, water", "cp2k", ["cp2k.psmp", "cp2k"],
                lambda _: ["-i", _input("water.inp")], _cp2k, SECONDS),
    Application("meep", "Meep, a waveguide", "meep-openmpi", ["meep-openmpi", "meep"],
                lambda _: [_input("waveguide.ctl")], _meep, SECONDS),
    Application("hpcc", "HPCC", "hpcc", [hpcc.PROGRAM], _hpcc_words, _hpcc,
                [(key, f" {title}", unit, True) for key, title, _, unit in HPCC]),
)


def _measure(application, ranks, counted):
    def measure(who, plan):
        peer = peers.PEERS[who]
        words = peers.command(peer, ranks, application.program(), application.words(ranks),
                              own_core=ranks == 2 and not counted)
        reader = os.path.join(plan.programs, READER)
        words[1:1] = ["--wdir", WORK, "-x", f"LD_PRELOAD={reader}",
                      *(word for key in ONE_THREAD for word in ("-x", key))]
        text = run(words, TIMEOUT_S, {**peers.environment(peer), **ONE_THREAD})
        if peer.counts and counter(text, peer.counts, "min") == 0:
            raise Failed(f"{peer.counts} is 0: the messages went elsewhere")
        values = application.values(text, ranks)
        if counted:
            return {"instructions": values["seconds"] / icount.NS_AN_INSTRUCTION}
        return {**values,
                "resident_peak_mib": counter(text, "resident_peak_kb", "max") / 1024}
    return measure


def _metrics(application, ranks, counted):
    if counted:
        return [Metric("instructions", f"{application.title}, {ranks} ranks, instructions", "billion")]
    return [*(Metric(key, f"{application.title}{title}, {ranks} ranks", unit, more)
              for key, title, unit, more in application.metrics),
            Metric("resident_peak_mib", f"{application.title}, {ranks} ranks, resident", "MiB")]


def groups(asked):
    """asked: {nodes; ranks: of SHAPES, 0: all; parts: of keys, or none; icount: instructions in place of time}"""
    found = []
    for ranks in [asked["ranks"]] if asked["ranks"] else SHAPES[asked["nodes"] - 1:]:
        for application in APPLICATIONS:
            if asked["icount"] and application.metrics is not SECONDS:
                continue  # it tells rates
            found.append(Group(f"{application.key} {ranks}", ["weir", *peers.OTHERS],
                               _metrics(application, ranks, asked["icount"]),
                               _measure(application, ranks, asked["icount"]),
                               warm_up=None if asked["icount"] else "tcp"))
    return [g for g in found if any(part in g.key for part in asked["parts"] or [""])]
