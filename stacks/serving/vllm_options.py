"""All options of `vllm serve`: which of them a user may set, and why not the others.

tests/serving compares the tables with the release of vLLM that the stacks serve with. So an option of a new
release is in one of them, or refused.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

# The release of vLLM in `pins.VLLM_IMAGE`, whose options these are.
RELEASE: Final = "0.29.0"

# Options that a stack sets itself, and options that would take a server away from its callers or its GPUs.
# `vllm.Vllm.require_users_arguments` fills the holes.
STACKS_OPTIONS: Final = {
    "--model --revision --served-model-name": "{model_key} decides what is served",
    "--enable-ssl-refresh --grpc --headless --host --port --ssl-ca-certs --ssl-cert-reqs --ssl-certfile "
    "--ssl-ciphers --ssl-keyfile --tokens-only --uds": "callers and health checks use HTTP on port {port}",
    "--api-key": "{callers}",
    "--hf-token": "hfToken has the token, encrypted",
    "--data-parallel-address --data-parallel-backend --data-parallel-external-lb --data-parallel-hybrid-lb "
    "--data-parallel-multi-port-external-lb --data-parallel-rank --data-parallel-rpc-port "
    "--data-parallel-size --data-parallel-size-local --data-parallel-start-rank "
    "--data-parallel-supervisor-port --device-ids --dp-supervisor-probe-failure-threshold "
    "--dp-supervisor-probe-interval-s --dp-supervisor-probe-timeout-s --enable-elastic-ep --master-addr "
    "--master-port --nnodes --node-rank --pipeline-parallel-size --prefill-context-parallel-size "
    "--ray-workers-use-nsight --tensor-parallel-size": "a server uses the GPUs of its machine",
    "--shutdown-timeout": "it fits into the time that a server has after SIGTERM",
    "--config": "the list has the arguments",
    "--load-format": "weights are read as safetensors, in which no code can be",
    "--allowed-media-domains": "a server fetches no address that a caller names",
}
_NAMES_CODE: Final = "code that it names would run in the server"
# Options that would undo what SECURITY.md says.
UNSAFE_OPTIONS: Final = {
    "--code-revision --trust-remote-code": "the code of a model's repository would run",
    "--distributed-executor-backend --ec-manager-config --io-processor-plugin --log-config-file "
    "--logits-processors --middleware --model-class-overrides --reasoning-parser-plugin --scheduler-cls "
    "--tool-parser-plugin --worker-cls --worker-extension-cls": _NAMES_CODE,
    "--ec-transfer-config --kv-transfer-config --weight-transfer-config": "code that it names would run in "
    "the server, which would also take data from other machines",
    "--kv-events-config": "the server would open a port that tells what is asked",
    "--enable-fault-tolerance --profiler-config": "callers could stop or slow the server",
    "--allowed-local-media-path": "callers would read files of the server",
    "--tool-server": "callers would use tools at an address from the network of the server",
    "--enable-mm-embeds --enable-prompt-embeds": "callers could send tensors, which may end the server",
    "--trust-request-chat-template": "callers could send templates that keep the server busy",
}
# Keys of options whose value is a mapping.
UNSAFE_KEYS: Final[Mapping[str, Mapping[str, str]]] = {
    "--compilation-config": {
        **dict.fromkeys(("backend", "inductor_compile_config", "inductor_passes"), _NAMES_CODE),
        "cache_dir": "compiled code in that folder would run in the server",
    },
    "--speculative-config": {
        "code_revision": "the code of a model's repository would run",
        "draft_load_config": "weights are read as safetensors, in which no code can be",
    },
    "--structured-outputs-config": {"reasoning_parser_plugin": _NAMES_CODE},
}
# Everything else. A model, a tokenizer or a configuration that some of them name, also in `--hf-overrides`,
# runs no code without `--trust-remote-code`. Chat templates run in Jinja's sandbox.
_USERS: Final = """
    --additional-config --aggregate-engine-logging --all2all-backend --allow-credentials
    --allow-deprecated-quantization --allowed-headers --allowed-methods --allowed-origins
    --api-server-count --async-scheduling --attention-backend --attention-config --block-size
    --chat-template --chat-template-content-format --cohere-format --cohere-is-reasoning-model
    --collect-detailed-traces --compilation-config --config-format --convert
    --cp-kv-cache-interleave-size --cpu-distributed-timeout-seconds --cpu-offload-gb
    --cpu-offload-params --cudagraph-capture-sizes --cudagraph-metrics --dbo-decode-token-threshold
    --dbo-prefill-token-threshold --dcp-comm-backend --dcp-kv-cache-interleave-size --dcp-q-replicate
    --decode-context-parallel-size --default-chat-template-kwargs --default-mm-loras --diffusion-config
    --disable-access-log-for-endpoints --disable-cascade-attn --disable-chunked-mm-input
    --disable-custom-all-reduce --disable-fastapi-docs --disable-hybrid-kv-cache-manager
    --disable-log-stats --disable-nccl-for-dp-synchronization --disable-sliding-window
    --disable-uvicorn-access-log --distributed-timeout-seconds --download-dir --dtype
    --enable-auto-tool-choice --enable-batch-sharded-sampling --enable-bf16x3-router-gemm
    --enable-chunked-prefill --enable-cumem-allocator --enable-dbo --enable-ep-weight-filter
    --enable-eplb --enable-expert-parallel --enable-flash-late-interaction --enable-flashinfer-autotune
    --enable-force-include-usage --enable-layerwise-nvtx-tracing --enable-log-deltas
    --enable-log-outputs --enable-log-requests --enable-logging-iteration-details --enable-lora
    --enable-mamba-cache-stochastic-rounding --enable-mfu-metrics --enable-mixed-moe-lora-format
    --enable-moe-shared-loras --enable-offline-docs --enable-per-request-metrics --enable-prefix-caching
    --enable-prompt-tokens-details --enable-request-id-headers --enable-return-routed-experts
    --enable-server-load-tracking --enable-sleep-mode --enable-tokenizer-info-endpoint
    --enable-tower-connector-lora --enable-trace-replay --enforce-eager --eplb-config
    --exclude-tools-when-tool-choice-none --expert-placement-strategy --fail-on-environ-validation
    --fault-tolerance-config --fingerprint-mode --fingerprint-value --fully-sharded-loras
    --gdn-prefill-backend --generation-config --gpu-memory-utilization --h11-max-header-count
    --h11-max-incomplete-event-size --hf-config-path --hf-overrides --ignore-patterns
    --interleave-mm-strings --ir-op-priority --jit-monitor-mode --jit-monitor-verbose
    --kda-prefill-backend --kernel-config --kv-cache-dtype --kv-cache-dtype-skip-layers
    --kv-cache-memory-bytes --kv-cache-metrics --kv-cache-metrics-sample --kv-offloading-backend
    --kv-offloading-size --kv-sharing-fast-prefill --language-model-only --limit-mm-per-prompt
    --linear-backend --log-error-stack --logprobs-mode --long-prefill-token-threshold --lora-dtype
    --lora-modules --lora-target-modules --mamba-backend --mamba-block-size --mamba-cache-dtype
    --mamba-cache-mode --mamba-cache-philox-rounds --mamba-ssm-cache-dtype --mamba-ssu-algorithm
    --max-cpu-loras --max-cudagraph-capture-size --max-log-len --max-logprobs --max-lora-rank
    --max-loras --max-model-len --max-num-batched-tokens --max-num-queued-reqs --max-num-queued-tokens
    --max-num-scheduled-tokens --max-num-seqs --max-parallel-loading-workers --media-io-kwargs
    --mm-device-do-normalize --mm-encoder-attn-backend --mm-encoder-attn-dtype
    --mm-encoder-fp8-scale-path --mm-encoder-fp8-scale-save-margin --mm-encoder-fp8-scale-save-path
    --mm-encoder-only --mm-encoder-tp-mode --mm-hasher-algorithm --mm-ipc-gpu-memory-gb
    --mm-processor-cache-gb --mm-processor-cache-type --mm-processor-device --mm-processor-kwargs
    --mm-shm-cache-max-object-size-mb --mm-tensor-ipc --model-impl --model-loader-extra-config
    --moe-backend --num-gpu-blocks-override --numa-bind --numa-bind-cpus --numa-bind-nodes
    --offload-backend --offload-group-size --offload-num-in-group --offload-params
    --offload-prefetch-step --optimization-level --otlp-traces-endpoint --override-generation-config
    --per-request-spec-decode-metrics --performance-mode --pooler-config --prefill-schedule-interval
    --prefix-cache-retention-interval --prefix-caching-hash-algo --prefix-match-unit
    --pt-load-map-location --quantization --quantization-config --reasoning-config --reasoning-parser
    --renderer-num-workers --replayssm-buffer-len --response-role --return-sampling-mask
    --return-tokens-as-token-ids --root-path --runner --safetensors-load-strategy
    --safetensors-prefetch-block-size --safetensors-prefetch-num-threads --scheduler-reserve-full-isl
    --scheduling-policy --seed --show-hidden-metrics-for-version --skip-mm-profiling
    --skip-tokenizer-init --spec-method --spec-model --spec-tokens --specialize-active-lora
    --speculative-config --sse-keep-alive-interval --stream-interval --structured-outputs-config
    --tokenizer --tokenizer-mode --tokenizer-revision --tool-call-parser --ubatch-size --use-fp64-gumbel
    --use-replayssm --use-tqdm-on-load --uvicorn-log-level --video-pruning-method --video-pruning-rate
    --watermark
"""
USERS_OPTIONS: Final = frozenset(_USERS.split())
SHORT_NAMES: Final = {
    "-ac": "--attention-config",
    "-asc": "--api-server-count",
    "-cc": "--compilation-config",
    "-dc": "--diffusion-config",
    "-dcp": "--decode-context-parallel-size",
    "-dp": "--data-parallel-size",
    "-dpa": "--data-parallel-address",
    "-dpb": "--data-parallel-backend",
    "-dpe": "--data-parallel-external-lb",
    "-dph": "--data-parallel-hybrid-lb",
    "-dpl": "--data-parallel-size-local",
    "-dpm": "--data-parallel-multi-port-external-lb",
    "-dpn": "--data-parallel-rank",
    "-dpp": "--data-parallel-rpc-port",
    "-dpr": "--data-parallel-start-rank",
    "-ep": "--enable-expert-parallel",
    "-n": "--nnodes",
    "-pcp": "--prefill-context-parallel-size",
    "-pp": "--pipeline-parallel-size",
    "-q": "--quantization",
    "-r": "--node-rank",
    "-sc": "--speculative-config",
    "-tp": "--tensor-parallel-size",
}
_SPECULATIVE: Final = {"--spec-method": "method", "--spec-model": "model"}
# vLLM imports a class by such a name of a draft model.
_CLASS: Final = re.compile(r"\w+(\.\w+)+")


def reason_against(option: str, value: str, reasons: Mapping[str, str], *, of_release: bool) -> str:
    """Why an option is not the user's to set, with a hole for its name. Empty if it is.

    vLLM completes an abbreviated option.

    Args:
        option: As it is written, such as `--max_model_len` or `-cc.backend`.
        value: Its value, empty without one.
        reasons: Why options are refused, by name.
        of_release: Whether the server is of the release whose options are known here.
    """
    name, _, key = option.partition(".")
    name = SHORT_NAMES.get(name) or name.replace("_", "-")
    if re.fullmatch("-O.*", name):
        return ""
    known = {*USERS_OPTIONS, *reasons}
    names = [name] if name in known else [full_name for full_name in known if full_name.startswith(name)]
    names += [full_name for short, full_name in SHORT_NAMES.items() if short.startswith(name)]
    if not names and any(full_name.startswith(name.replace("--no-", "--", 1)) for full_name in known):
        return ""
    if not names and of_release:
        return f"{{}} is no option of vLLM {RELEASE}; see `vllm serve --help=all`, or set servingImage too"
    refused = [reasons[full_name] for full_name in sorted(names) if full_name in reasons]
    in_value = (why for full_name in sorted(names) for why in _problems_of_value(full_name, key, value))
    return next(iter(refused), "") or next(in_value, "")


def _problems_of_value(name: str, key: str, value: str) -> Iterator[str]:
    """What is wrong with the value of an option, with a hole for the option's name."""
    entries: Mapping[str, Any] = {_SPECULATIVE[name]: value} if name in _SPECULATIVE else {}
    if key:
        entries = {key.partition(".")[0].rstrip("+"): value}
    elif name in UNSAFE_KEYS:
        entries = _mapping(value)
    for entry, content in entries.items():
        if why := UNSAFE_KEYS.get(name, {}).get(entry):
            yield f"{entry} of {{}} is not safe, because {why}"
        if name in ("--speculative-config", *_SPECULATIVE) and _names_class(entry, content):
            yield f"{content!r} of {{}} is not safe, because {_NAMES_CODE}"


def _mapping(value: str) -> Mapping[str, Any]:
    try:
        tree = json.loads(value)
    except (ValueError, RecursionError):
        return {}
    return tree if isinstance(tree, dict) else {}


def _names_class(entry: str, content: object) -> bool:
    if entry == "method":
        return content == "custom_class"
    return entry == "model" and isinstance(content, str) and bool(_CLASS.fullmatch(content))
