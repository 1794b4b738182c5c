#!/bin/bash
# GKE runs this once on every node with network cards for RDMA, before its pods. NCCL locks the memory that a card reads
# and writes. containerd gives a container 8 MiB of locked memory, and only a privileged one could raise that.
set -euo pipefail
folder=/etc/systemd/system/containerd.service.d
mkdir -p "$folder"
printf '[Service]\nLimitMEMLOCK=infinity\n' >"$folder/50-locked-memory.conf"
systemctl daemon-reload
systemctl restart containerd
