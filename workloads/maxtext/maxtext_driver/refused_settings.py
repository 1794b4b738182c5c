"""MaxText's settings that a recipe may not have: the pinned release takes them and does not do what they say.

A test compares WITHOUT_EFFECT with the modules of the installed release that a training imports.
"""

from collections.abc import Mapping
from typing import Final

SERVING: Final = "is of serving, and a training does not read it: leave it out"
POST_TRAINING: Final = "is of another program of MaxText, which the driver does not run: leave it out"
MEDIA: Final = "is read by nothing of a training: leave it out"
UNREAD: Final = "is read by nothing in this release of MaxText: leave it out"

# Settings that no module of a training reads, by what to say of them.
WITHOUT_EFFECT: Final[Mapping[str, tuple[str, ...]]] = {
    SERVING: (
        *("autoregressive_decode_assert", "async_scheduling", "debug_converter", "decode_sampling_nucleus_p"),
        *("decode_sampling_strategy", "decode_sampling_temperature", "decode_sampling_top_k"),
        *(
            "checkpoint_is_quantized",
            "enable_expert_parallel",
            "enable_jax_profiler",
            "enable_llm_inference_pool",
        ),
        *(
            "enable_model_warmup",
            "enable_prefix_caching",
            "free_kv_cache_during_weight_sync",
            "gcs_debug_path",
        ),
        *("generate_slice", "hbm_utilization_vllm", "inference_metadata_file"),
        *("inference_microbenchmark_log_file_path", "inference_microbenchmark_loop_iters"),
        *("inference_microbenchmark_num_samples", "inference_microbenchmark_prefill_lengths"),
        *("inference_microbenchmark_stages", "inference_server", "jax_profiler_port", "kv_cache_buffer"),
        *("kv_tp_size", "load_from_prefill_dir", "log_weight_sync_time", "max_num_batched_tokens"),
        *(
            "max_num_seqs",
            "moe_mlp_tp_size",
            "multi_sampling",
            "prefill_cache_dir",
            "prefill_chunk_size",
            "prefill_slice",
        ),
        *(
            "prefix_caching_dram_byte",
            "prefix_caching_hbm_byte",
            "prometheus_port",
            "return_log_prob",
            "rollout_backend",
        ),
        *("stack_prefill_result_cache", "stop_strings", "swap_space_vllm_gb", "system_prompt"),
        *("use_raiden_ffi", "use_standalone_converter", "use_weight_converter", "vllm_block_size"),
        *("vllm_hf_config_path", "vllm_hf_overrides", "vllm_load_format", "weight_sync_debug"),
    ),
    POST_TRAINING: (
        *("data_template_path", "distill_alpha", "distill_alpha_end", "distill_alpha_schedule"),
        *("distill_beta_end", "distill_beta_schedule", "distill_feature_loss_type", "distill_layer_indices"),
        *("distill_student_weights_share_map", "distill_temperature", "distill_temperature_end"),
        *("distill_temperature_schedule", "distill_weights_copy_map", "offline_data_dir"),
        *("student_overrides", "student_params_to_update", "teacher_overrides", "use_grpo"),
        *("standalone_checkpointer_drop_page_cache_before_restore",),
        *("standalone_checkpointer_enable_restore_in_loop", "standalone_checkpointer_per_step_interval"),
        *("standalone_checkpointer_start_from_checkpoint",),
    ),
    MEDIA: (
        *("activation_dropout_for_audio", "activation_function_for_audio", "audio_path", "audio_placeholder"),
        *("conv_chunksize_for_audio", "max_sample_len_for_audio", "n_window_infer_for_audio"),
        *("num_conv_layers_for_audio", "remat_policy_for_vit", "scale_embedding_for_audio", "video_path"),
        *("vision_output_length",),
    ),
    UNREAD: (
        *("checkpoint_storage_device_host_concurrent_gb", "enable_padding_causal_mask", "force_unroll"),
        *("max_corpus_chars", "max_inflight_computations", "replicator_backup_interval_minutes"),
        *("scan_pipeline_repeats", "set_remat_policy_on_layers_per_stage", "sharding_strategy"),
        *("train_interleave_cycle_length", "use_replicator_service", "use_stream_chunking"),
        # It belongs to an upload that the driver turns off.
        "vertex_tensorboard_region",
        *("write_estimator_result",),
    ),
}

REFUSED: Final[Mapping[str, str]] = {
    **{key: reason for reason, keys in WITHOUT_EFFECT.items() for key in keys},
    # It reaches a compilation that training does not use. libtpu_flags reach both.
    "compile_xla_flags": "has no effect on the trained step; use libtpu_flags",
    # The loader would go on with batches that have no token.
    "generate_padding_batch_train": "has a run go on without rows when they end; set num_epoch to repeat "
    "them",
    "hf_lora_adapter_path": "starts from an adapter, which this release trains no further; leave it out",
    "hf_path": "is read at any commit, by the hf pipeline from the first row at every start; set "
    "dataset_type: grain and grain_train_files: hf://datasets/ORGANIZATION/NAME/FILES",
    # Nothing of the loop adds adapters to the model, and the optimizer gets nothing but them.
    "lora": "trains nothing in this release's training program; leave it out to train all weights, or train "
    "an adapter on GPUs (docs/training)",
    "lora_input_adapters_path": SERVING,
    "use_dpo": f"{POST_TRAINING}, or train preferences on GPUs (docs/training)",
    # The loop would take its whole batch at once.
    "use_tunix_gradient_accumulation": POST_TRAINING,
}

# Settings of MaxText's own pipelines. The rows of conversations are the driver's, and read none of them.
NOT_FOR_CONVERSATIONS: Final = frozenset(
    {
        *("add_bos", "add_eos", "chat_template", "chat_template_path", "colocated_python_data_input"),
        *("eval_data_columns", "eval_per_device_batch_size", "expansion_factor_real_data"),
        *("formatting_func_kwargs", "formatting_func_path", "generate_padding_batch_eval"),
        *("grain_packing_type", "grain_shuffle_buffer_size", "grain_train_mixture_config_path"),
        *("grain_use_elastic_iterator", "grain_worker_count", "grain_worker_count_eval"),
        *("max_segments_per_seq", "packing", "sft_train_on_completion_only", "tokenize_eval_data"),
        *("tokenize_train_data", "tokenizer_path", "tokenizer_type", "use_chat_template", "use_truncation"),
    }
)
