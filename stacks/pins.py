"""Every version and image digest that the program deploys, once.

The libraries of the training images are locked beside their Dockerfiles.
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

# The image of the vLLM server on TPU chips, v0.27.0 (assumption vllm-tpu-image).
# renovate: datasource=docker depName=vllm/vllm-tpu currentValue=v0.27.0
VLLM_TPU_IMAGE: Final = (
    "docker.io/vllm/vllm-tpu@sha256:d6748bc7b1b020ab6411506d4bf30f8bfabb5db2b8505328f26d1a545b479df8"
)

# Version of the chart. The manager's image is of the same release.
# renovate: datasource=go depName=sigs.k8s.io/kueue
KUEUE_VERSION: Final = "0.19.2"

# The image of Kueue's manager, v0.19.2. The chart alone would name it by a tag.
# renovate: datasource=docker depName=registry.k8s.io/kueue/kueue currentValue=v0.19.2
KUEUE_IMAGE: Final = (
    "registry.k8s.io/kueue/kueue@sha256:8a77be2df3d441d1a99b60eb1625c835b5f4feda5db02ece26818cf2a30c4d86"
)

# The image with NCCL's plugin for the network cards of A4, v1.1.2 for x86 (assumption gib-image).
# renovate: datasource=docker depName=us-docker.pkg.dev/gce-ai-infra/gpudirect-gib/nccl-plugin-gib
# currentValue=v1.1.2
NCCL_PLUGIN_IMAGE: Final = (
    "us-docker.pkg.dev/gce-ai-infra/gpudirect-gib/nccl-plugin-gib"
    "@sha256:b71627dcf88862cd0e64434dfd0224441960db58f2022f94b5f56123659c207e"
)

# The image in which Cloud Build runs `docker build` (assumption docker-builder-digest).
# renovate: datasource=docker depName=gcr.io/cloud-builders/docker currentValue=latest
DOCKER_BUILDER: Final = (
    "gcr.io/cloud-builders/docker@sha256:3d00b6c1a9b862621c30fc74d4f2abfc62bcbdee631ed3febd31e7edbdf6252c"
)
