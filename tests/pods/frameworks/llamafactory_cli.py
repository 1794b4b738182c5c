"""Starts train.py as LLaMA-Factory's command starts its trainer: with torchrun, as the environment says.

It reads what src/llamafactory/launcher.py read in 2026-08.
"""

import os
import subprocess
import sys

if os.environ.get("FORCE_TORCHRUN", "0").lower() not in ("1", "true", "y"):
    sys.exit("every machine would train alone")
NODES = {
    "--nnodes": os.environ.get("NNODES", "1"),
    "--node_rank": os.environ.get("NODE_RANK", "0"),
    "--nproc_per_node": os.environ.get("NPROC_PER_NODE", "0"),
    "--master_addr": os.environ.get("MASTER_ADDR", "127.0.0.1"),
    "--master_port": os.environ.get("MASTER_PORT", "0"),
}
OPTIONS = [word for option in NODES.items() for word in option]
sys.exit(subprocess.run(["torchrun", *OPTIONS, "train.py"], check=False).returncode)
