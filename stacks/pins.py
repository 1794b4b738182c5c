"""Every version and image digest that the program deploys, once.

The libraries of the training image are locked in workloads/finetune/requirements.txt.
"""

from typing import Final

# KubeRay picks the submit command by it; it must be the Ray inside the image (a test compares).
# renovate: datasource=pypi depName=ray
RAY_VERSION: Final = "2.60.0"

# The vLLM that serves, v0.29.0-cu129: an index for amd64 and arm64. Google documents a
# driver of CUDA 12.2 for Cloud Run's L4: images for CUDA 13, such as the plain v0.29.0, do not start on it,
# and one for CUDA 12.9 does (assumption vllm-cuda-on-cloud-run).
# renovate: datasource=docker depName=vllm/vllm-openai currentValue=v0.29.0-cu129
VLLM_IMAGE: Final = (
    "docker.io/vllm/vllm-openai@sha256:7ef5a35d1ef8ce2cf9d671dd91eec6e367c5849262e0362b4d3d4a26be0d87d2"
)

# Chart and controller; the chart names its image by a tag that the Kubernetes registry never moves.
# renovate: datasource=go depName=sigs.k8s.io/kueue
KUEUE_VERSION: Final = "0.19.2"
