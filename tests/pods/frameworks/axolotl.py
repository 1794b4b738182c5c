"""Starts train.py as axolotl's command starts its trainer: with torchrun and the options behind `--`.

It reads what src/axolotl/cli/utils/train.py read in 2026-07.
"""

import subprocess
import sys

OPTIONS = sys.argv[sys.argv.index("--") + 1 :]
sys.exit(subprocess.run(["torchrun", *OPTIONS, "train.py"], check=True).returncode)
