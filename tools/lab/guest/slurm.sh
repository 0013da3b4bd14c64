# Sourced by stage2: brings up Slurm on this node. Its files are in /etc/slurm and /run/lab/slurm; node1 controls.
# A node has more CPUs for Slurm than it really has, as mpirun may oversubscribe it, too.

slurm_conf() {
	cat <<-END
	ClusterName=lab
	SlurmctldHost=node1(10.78.0.1)
	SlurmUser=root
	AuthType=auth/munge
	ProctrackType=proctrack/cgroup
	TaskPlugin=task/cgroup
	SelectType=select/cons_tres
	SelectTypeParameters=CR_Core
	SlurmdParameters=config_overrides
	ReturnToService=2
	# An emulated node is slow.
	MessageTimeout=60
	BatchStartTimeout=60
	KillWait=5
	MailProg=/bin/true
	StateSaveLocation=$slurm/state
	SlurmdSpoolDir=$slurm/spool
	SlurmctldPidFile=$slurm/slurmctld.pid
	SlurmdPidFile=$slurm/slurmd.pid
	SlurmctldLogFile=$slurm/slurmctld.log
	SlurmdLogFile=$slurm/slurmd.log
	PartitionName=lab Nodes=ALL Default=YES
	END
	for n in $($B seq 1 "$LAB_NODES"); do echo "NodeName=node$n NodeAddr=10.78.0.$n CPUs=$((4 * LAB_CPUS))"; done
}

slurm_up() {
	slurm=/run/lab/slurm cgroup=/sys/fs/cgroup
	$B mkdir -p -m 755 $slurm $slurm/state $slurm/spool /run/munge /etc/slurm
	slurm_daemons >$slurm/start.log 2>&1
}

# They must not inherit that a shell's jobs ignore signals.
slurm_daemons() {
	command -v slurmd || { echo "it is not installed (run tools/setup)"; return 1; }
	$B mount -t cgroup2 cgroup2 $cgroup && $B mkdir $cgroup/system.slice || return
	for group in $cgroup $cgroup/system.slice; do echo "+cpuset +cpu +memory" >$group/cgroup.subtree_control; done
	printf 'CgroupPlugin=cgroup/v2\nIgnoreSystemd=yes\n' >/etc/slurm/cgroup.conf
	slurm_conf >/etc/slurm/slurm.conf
	# All nodes know the mark of this run, and no other run does.
	(umask 077; printf %s "$LAB_MARK" >$slurm/munge.key)
	env --default-signal munged --key-file=$slurm/munge.key --seed-file=$slurm/munge.seed \
		--pid-file=$slurm/munged.pid --log-file=$slurm/munged.log || return
	[ "$LAB_NODE" -gt 1 ] || env --default-signal slurmctld -c || return
	env --default-signal slurmd
}

slurm_ready() { # all nodes are idle
	n=0
	until [ "$(sinfo -h -N -o %T)" = "$($B yes idle | $B head -n "$LAB_NODES")" ]; do
		n=$((n + 1))
		[ $n -gt 200 ] && return 1
		$B sleep 0.2
	done
}

slurm_why() { # the last words of each
	$B tail -q -n 1 $slurm/*.log | tr '\n' ';'
}
