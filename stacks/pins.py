"""Every version and image digest that the program deploys, once.

The libraries of the training image are locked in workloads/finetune/requirements.txt.
"""

from typing import Final

# KubeRay chooses the submit command by this version. It must be the Ray version in the image (a test
# compares).
# renovate: datasource=pypi depName=ray
RAY_VERSION: Final = "2.60.0"

# The image of the vLLM server, v0.29.0-cu129: an index for amd64 and arm64. Google documents a driver of CUDA
# 12.2 for Cloud Run's L4. Images for CUDA 13, such as the plain v0.29.0, do not start with it. An image for
# CUDA 12.9 does (assumption vllm-cuda-on-cloud-run).
# renovate: datasource=docker depName=vllm/vllm-openai currentValue=v0.29.0-cu129
VLLM_IMAGE: Final = (
    "docker.io/vllm/vllm-openai@sha256:7ef5a35d1ef8ce2cf9d671dd91eec6e367c5849262e0362b4d3d4a26be0d87d2"
)

# Version of the chart and of the controller. The chart refers to its image by a tag, which the Kubernetes
# registry never moves.
# renovate: datasource=go depName=sigs.k8s.io/kueue
KUEUE_VERSION: Final = "0.19.2"
