"""A kubelet without containers: what the pods of simulated nodes run is run, in bubblewrap, on this machine.

What a pod asks of its node, GPUs, TPUs and memory, is booked by the scheduler and not enforced, nor
are seccomp profiles. Network policies are, by nftables (`firewall.py`).
"""
