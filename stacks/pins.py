"""Every version and image digest that the program deploys, once.

The libraries of the training image are locked in workloads/finetune/requirements.txt.
"""

from typing import Final

# KubeRay picks the submit command by it; it must be the Ray inside the image (a test compares).
# renovate: datasource=pypi depName=ray
RAY_VERSION: Final = "2.60.0"
