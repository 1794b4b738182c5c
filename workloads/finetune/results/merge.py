"""Merges the adapter into the base model, and writes directories that transformers and vLLM load."""

import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conversations.stops import add_stop, end_of_reply, short_prompt, short_row, stops
from finetune.model.families import auto_class
from finetune.model.loading import (
    check_model,
    fetch_model,
    load_model,
    load_processor,
    with_adapter,
    without_router_scores,
)
from finetune.model.plain import greedy, read_config
from finetune.model.quantized import method
from finetune.results.template import keep_template, template_beside
from finetune.settings.sections import Model
from finetune.settings.templates import template_text
from finetune.storage.checkpoint import RunFolder
from finetune.storage.folder import Folder
from shared.errors import InputError
from shared.model_files import DESCRIPTIONS, FROM_DISK, is_weights

if TYPE_CHECKING:
    import torch

# The number of tokens that the merged model generates as a test before it is published.
TRIAL_TOKENS = 16
# Nats a token by which a merged model may differ from the trained one. Rounding to bf16 is below a tenth.
NOISE = 1.0


def merge_run(uri: str, target: Path) -> None:
    """Write the merged model of a finished run, local or gs://, as the run does with `result: model`.

    Raises InputError when there is no such run, or `target` exists.
    """
    import torch

    if target.exists():
        raise InputError(f"{target} exists; name a folder that does not")
    storage, _, name = Folder(uri).uri.rpartition("/")
    run = RunFolder(storage, name)
    recipe = run.recorded_recipe()
    if not recipe.lora:
        raise InputError(f"{uri} trained all weights: its result is a model already, copy {uri}/model")
    model = recipe.model
    with tempfile.TemporaryDirectory() as adapter:
        run.fetch_result("adapter", Path(adapter))
        check_model(model)
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        part = target.with_name(f"{target.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        merge_adapter(model, fetch_model(model), Path(adapter), part, device)
    part.rename(target)


def merge_adapter(
    model: Model,
    published: Path,
    adapter: Path,
    target: Path,
    device: "torch.device",
    trained_model: Any = None,
) -> Any:
    """Write the merged weights in bf16, the base model's configuration and its tokenizer. Try and return it.

    The trained model, if it is whole in this process and not in 4 bits, takes in its adapter and is of no use
    then. Otherwise the base model is read from the disk again.

    An adapter that was trained on 4-bit weights is merged into the dequantized weights, not into the
    published ones, because it has learned to correct the quantization's errors. The result is the model that
    was trained and evaluated. https://kaitchup.substack.com/p/qlora-merging-pitfalls-dont-lose
    """
    import torch

    from finetune.model.attention import attention_of_rows

    adapted = (trained_model or _adapted(model, adapter, device)).eval()
    tokenizer = load_processor(model.name, False, model.revision, model.chat_template)
    with attention_of_rows(adapted):
        trained = _predicted(adapted, tokenizer)
        with adapted.disable_adapter():
            change = _distance(trained, _predicted(adapted, tokenizer))
    merged = adapted.merge_and_unload(safe_merge=True)
    merged.to(torch.bfloat16).save_pretrained(target)
    written = complete_model(model, published, template_beside(adapter), target, device)
    distance = _distance(trained, _predicted(written, tokenizer))
    if distance > max(NOISE, 2 * change):
        raise InputError(
            f"the merged model predicts other tokens than the one that was trained (they differ by "
            f"{distance:.2f} nats, and the training changed {change:.2f}): its layers cannot take in this "
            "adapter; set training.result to adapter"
        )
    return written


def _adapted(model: Model, adapter: Path, device: "torch.device") -> Any:
    """The base model from the disk, in 16 or 32 bits, with its adapter."""
    base = load_model(model, device)
    if model.quantization == "nf4":
        base.dequantize()
    return with_adapter(base, adapter)


def _predicted(model: Any, tokenizer: Any) -> "torch.Tensor":
    """The logarithms of the probabilities that a model gives to each next token of a short conversation."""
    import torch

    with torch.no_grad():
        logits = model(torch.tensor([short_row(tokenizer)], device=model.device)).logits[0]
    return logits.float().log_softmax(-1).cpu()


def _distance(expected: "torch.Tensor", other: "torch.Tensor") -> float:
    """The divergence of two predictions in nats a token, 0 for equal ones."""
    return float((expected.exp() * (expected - other)).sum(-1).mean())


def complete_model(
    model: Model, published: Path, asked: str | None, target: Path, device: "torch.device"
) -> Any:
    """Give written weights the base model's configuration and its tokenizer. Try the result and return it.

    The chat template is the recipe's, if it names one, and asks like the template `asked`, which the weights
    were trained with. The other files stay as they were published, because the server's version of
    transformers may be another than this one. The index of the weights is written anew.
    """
    for pattern in DESCRIPTIONS:
        for file in published.glob(pattern):
            if ".safetensors" not in file.name:
                shutil.copyfile(file, target / file.name)
    config = json.loads((target / "config.json").read_text())
    (target / "config.json").write_text(json.dumps(_in_bf16(config), indent=2))
    if model.chat_template:
        # The form of older processors.
        (target / "chat_template.json").unlink(missing_ok=True)
        (target / "chat_template.jinja").write_text(template_text(model.chat_template))
    keep_template(asked, target)
    add_stop(load_processor(str(target), pictures=False), target)
    return verify_model(target, published, device)


def verify_model(directory: Path, published: Path, device: "torch.device") -> Any:
    """Load a written model, generate from it and return it. Raises RuntimeError when a server would fail."""
    import torch

    expected, written = _weights(published), _weights(directory)
    config = read_config(published)
    # Weights that were quantized have other names there.
    if not method(config) and (unknown := sorted(written.keys() - expected.keys())):
        raise RuntimeError(f"the model in {directory} has other weights than its base: {unknown[:3]}")
    if set(written.values()) != {"BF16"}:
        raise RuntimeError(f"the model in {directory} is in {sorted(set(written.values()))}, not bf16")
    tokenizer = load_processor(str(directory), pictures=False)
    own = read_config(directory)
    options = {"config": own, "dtype": "auto", "output_loading_info": True, **FROM_DISK}
    model, report = auto_class(own).from_pretrained(directory, **options)
    if lost := sorted(report["missing_keys"]):
        raise RuntimeError(f"the model in {directory} lacks weights: {lost[:3]}")
    _tell_left_out(sorted(expected.keys() - written.keys()))
    model = without_router_scores(model).to(device)
    end = end_of_reply(tokenizer)
    if end not in stops(directory):
        raise RuntimeError(f"the model in {directory} would not stop: its replies end with token {end}")
    prompt = torch.tensor([short_prompt(tokenizer)], device=device)
    with greedy(model):
        answer = model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=TRIAL_TOKENS,
            output_logits=True,
            return_dict_in_generate=True,
        )
    if not all(step.isfinite().all() for step in answer.logits):
        raise RuntimeError(
            f"the model in {directory} answers with numbers that are not finite: the training diverged; "
            "lower training.learning_rate, in a run of its own"
        )
    return model


def _tell_left_out(names: list[str]) -> None:
    """Say which tensors of the published files are not in the result. transformers loads none of them."""
    if names:
        print(
            f"{len(names):,} tensors of the published files are not in the model, because transformers does "
            f"not load them: {', '.join(names[:3])}{', ...' * (len(names) > 3)}",
            flush=True,
        )


def _in_bf16(config: dict[str, Any]) -> dict[str, Any]:
    """Set the type of the written weights in the model's configuration and in those of its parts.

    Weights that were published in a quantized form are written without it.
    """
    config = {key: value for key, value in config.items() if key != "quantization_config"}
    changed = {key: _in_bf16(value) if isinstance(value, dict) else value for key, value in config.items()}
    return changed | {key: "bfloat16" for key in ("dtype", "torch_dtype") if key in config}


def _weights(directory: Path) -> dict[str, str]:
    """The type of every tensor in the safetensors files of a directory, by the tensor's name."""
    from safetensors import safe_open

    types: dict[str, str] = {}
    for file in sorted(file for file in directory.iterdir() if is_weights(file.name)):
        with safe_open(file, "pt") as tensors:
            names = list(tensors.keys())
            types |= {name: tensors.get_slice(name).get_dtype() for name in names}
    return types
