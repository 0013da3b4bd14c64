"""How a run of the MPI program is started: by mpirun and what it starts itself with, or by Slurm's srun."""

import os
import shlex

# As between/launch.cc, but for an MPI job: srun brings the processes together.
BASE = {"pml": "ob1", "btl": "weir,self"}
SRUN = ["--mpi=pmix", "--overlap", "--mem=0", "--cpu-bind=none", "--distribution=block", "--quiet"]


def is_srun(launcher):
    words = shlex.split(launcher or "")
    return bool(words) and os.path.basename(words[0]) == "srun"


def plain_environment():
    """Without what sets weir's keys: parameters of the environment would count still."""
    return {name: value for name, value in os.environ.items()
            if not name.startswith("OMPI_MCA_btl_weir_")}


def mca(parameters):
    return [word for name, value in parameters.items() for word in ("--mca", name, value)]


def command(opt, parameters):
    """Of a run with these MCA parameters: the words before the program, and the environment."""
    environment = plain_environment()
    if is_srun(opt.launcher):
        environment.update({f"OMPI_MCA_{name}": value for name, value in {**BASE, **parameters}.items()})
        words = [*shlex.split(opt.launcher), *SRUN, f"--ntasks={opt.np}"]
        if opt.hosts:
            words += [f"--nodelist={','.join(opt.hosts)}", f"--nodes={len(opt.hosts)}",
                      f"--ntasks-per-node={opt.np // len(opt.hosts)}"]
        return words, environment
    words = [opt.mpirun, "--oversubscribe", "--bind-to", "none", *mca(BASE)]
    if opt.launcher and opt.launcher != "mpirun":
        words += mca({"plm": "rsh", "plm_rsh_agent": opt.launcher})
    words += opt.mpirun_args.split()
    if opt.hostfile:
        words += ["--hostfile", opt.hostfile]
    if opt.hosts:
        slots = opt.np // len(opt.hosts)
        words += ["--host", ",".join(f"{host}:{slots}" for host in opt.hosts)]
    return [*words, *mca(parameters), "-n", str(opt.np)], environment
