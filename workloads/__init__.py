"""What runs in containers, which have these folders on the path, as the recipes that are read here expect."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
