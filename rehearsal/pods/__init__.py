"""A kubelet without containers: what the pods of simulated nodes run is run, in bubblewrap, on this machine.

What a pod asks of its node, GPUs, TPUs and memory, is booked by the scheduler and not enforced. Network
policies and seccomp profiles are not enforced either.
"""
