# Sourced by stage2 and lab-wire: brings up the network and the RDMA devices of the chosen fabric.
#   loopback  eth0 10.77.0.1, rxe0 on it; further rails eth1/rxe1 ...
#   wire      per rail i a veth pair wia (10.77.i.1) -- wib (10.77.i.2), rxeia and rxeib on its ends;
#             with several paths each end sends into as many queues (lab-wire)
#   nodes     per rail i eth<i> 10.77.i.NODE with rxe<i>; mgmt0 10.78.0.NODE for mpirun and lab-rsh

last() { echo $((LAB_RAILS - 1)); }

link_up() { # link_up DEV ADDRESS/LEN
	ip link set "$1" mtu "$LAB_MTU" && ip addr add "$2" dev "$1" && ip link set "$1" up
}

rxe() { # rxe NAME NETDEV ADDRESS: add the device, wait until it is ACTIVE with its IPv4 GID
	[ "$LAB_DEVICE" = no ] && return
	rdma link add "$1" type rxe netdev "$2" || return
	ib=/sys/class/infiniband/$1/ports/1
	gid=$(printf '0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x' $(echo "$3" | $B tr . ' '))
	n=0
	until $B grep -q ACTIVE $ib/state && $B grep -qx "$gid" $ib/gids/* 2>/dev/null; do
		n=$((n + 1))
		[ $n -gt 200 ] && return 1
		$B sleep 0.05
	done
}

# paths I: fixed neighbours and routes of rail I, which a link that goes down loses.
# Fixed, so that there is no ARP to be lost in a blackout.
wire_paths() {
	a=w${1}a b=w${1}b ipa=10.77.$1.1 ipb=10.77.$1.2
	ip neigh replace $ipb lladdr 52:54:00:77:$1:02 dev $a nud permanent &&
		ip neigh replace $ipa lladdr 52:54:00:77:$1:01 dev $b nud permanent &&
		ip route replace $ipb dev $a src $ipa table 10$1 &&
		ip route replace $ipa dev $b src $ipb table 20$1
}

node_paths() {
	for n in $($B seq 1 "$LAB_NODES"); do
		[ "$n" -eq "$LAB_NODE" ] ||
			ip neigh replace 10.77.$1.$n lladdr 52:54:00:77:0$1:0$n dev eth$1 nud permanent || return
	done
}

# in_order DEV CPUMASK: one CPU receives all that DEV gets. A veth pair hands a packet over on the CPU
# that sent it; while another one stands still packets overtake, and rxe takes that for loss, which
# it mends after ack_timeout.
in_order() {
	[ "$LAB_CPUS" -eq 1 ] || echo $2 >/sys/class/net/$1/queues/rx-0/rps_cpus
}

wire_rail() { # wire_rail I: both ends live in this namespace (6.1's rxe knows no other), so
	# routing must force packets out: ours to the peer's address goes by the pair, not by lo.
	a=w${1}a b=w${1}b ipa=10.77.$1.1 ipb=10.77.$1.2
	ip link add $a address 52:54:00:77:$1:01 type veth peer name $b address 52:54:00:77:$1:02 || return
	$B sysctl -q -w net.ipv4.conf.$a.accept_local=1 net.ipv4.conf.$b.accept_local=1
	in_order $a 1 && in_order $b 2 || return
	link_up $a $ipa/24 && link_up $b $ipb/24 && wire_paths $1 || return
	ip rule add pref 5 oif $a to $ipb lookup 10$1
	ip rule add pref 5 oif $b to $ipa lookup 20$1
	ip rule add pref 6 iif lo from $ipa to $ipb lookup 10$1
	ip rule add pref 6 iif lo from $ipb to $ipa lookup 20$1
	rxe rxe${1}a $a $ipa && rxe rxe${1}b $b $ipb
}

fabric_up() {
	fabric_error="the network does not come up"
	# A router advertisement a second after boot would change the GID table under running jobs.
	for c in all default; do
		$B sysctl -q -w net.ipv6.conf.$c.accept_ra=0 net.ipv6.conf.$c.accept_dad=0 \
			net.ipv4.conf.$c.rp_filter=0 net.ipv4.conf.$c.arp_ignore=1 net.ipv4.conf.$c.arp_announce=2
	done
	ip link set lo up
	hostname=lab
	[ "$LAB_NODES" -gt 1 ] && hostname=node$LAB_NODE
	$B hostname $hostname
	echo "127.0.0.1 localhost" >/etc/hosts

	for v in FABRIC RAILS PATHS NODES NODE; do eval "echo LAB_$v=\$LAB_$v"; done >/run/lab/fabric

	case $LAB_FABRIC in
	loopback)
		echo "10.77.0.1 lab node1" >>/etc/hosts
		for i in $($B seq 0 $(last)); do
			link_up eth$i 10.77.$i.1/24 && fabric_error="rxe$i does not become ACTIVE" &&
				rxe rxe$i eth$i 10.77.$i.1 || return 1
		done ;;
	wire)
		echo "127.0.0.1 lab node1" >>/etc/hosts
		ip rule add pref 10 lookup local && ip rule del pref 0 || return 1
		for i in $($B seq 0 $(last)); do
			fabric_error="rail $i of the wire does not come up"
			wire_rail $i || return 1
		done ;;
	nodes)
		for n in $($B seq 1 $LAB_NODES); do echo "10.78.0.$n node$n" >>/etc/hosts; done
		for i in $($B seq 0 $(last)); do
			link_up eth$i 10.77.$i.$LAB_NODE/24 || return 1
			node_paths $i || return 1
			fabric_error="rxe$i does not become ACTIVE"
			rxe rxe$i eth$i 10.77.$i.$LAB_NODE || return 1
		done
		ip link set eth$LAB_RAILS name mgmt0 && link_up mgmt0 10.78.0.$LAB_NODE/24 || return 1
		for n in $($B seq 1 $LAB_NODES); do echo "node$n slots=$LAB_CPUS"; done >/run/lab/hostfile ;;
	esac
	if [ -n "$LAB_RATE$LAB_DELAY$LAB_LOSS" ] || [ "$LAB_PATHS" -gt 1 ]; then
		fabric_error="cannot shape the wire"
		lab-wire --local set "${LAB_RATE:-none}" "${LAB_DELAY:-none}" "${LAB_LOSS:-none}" || return 1
	fi
}
