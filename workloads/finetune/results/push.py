"""Pushes the result of a finished run to the Hugging Face Hub. After a failure a next start only pushes."""

import json
import tempfile
from pathlib import Path

from finetune.settings.sections import Training
from finetune.storage.checkpoint import RunFolder
from shared.errors import InputError, PassingError, one_line
from shared.files import read_json

PUSHED = "pushed.json"


def check_push(training: Training) -> None:
    """Raises InputError when the recipe asks for a push and there is no token."""
    import huggingface_hub

    if training.push_to_hub and not huggingface_hub.get_token():
        raise InputError("training.push_to_hub needs a token that may write, in HF_TOKEN")


def push(run: RunFolder, training: Training) -> None:
    """Push the published result, if the recipe asks for it and no start has done it.

    Raises InputError when the Hub refuses it, PassingError when it fails otherwise.
    """
    if not training.push_to_hub or read_json(run.folder, PUSHED):
        return
    from huggingface_hub import HfApi

    api, name = HfApi(), str(training.hub_model_id)
    with tempfile.TemporaryDirectory() as folder:
        run.fetch_result(training.result, Path(folder))
        try:
            name = api.create_repo(name, private=training.hub_private_repo, exist_ok=True).repo_id
            done = api.upload_folder(repo_id=name, folder_path=folder, commit_message=f"Run {run.name}")
        except Exception as error:
            status = getattr(getattr(error, "response", None), "status_code", 500)
            refused = 400 <= status < 500 and status not in (408, 429)
            problem = f"run {run.name} is finished, and its {training.result} is not pushed to {name}"
            remedy = "; HF_TOKEN must be allowed to write there, and a next start only pushes"
            kind = InputError if refused else PassingError
            raise kind(f"{problem}: {one_line(error)}{remedy}") from error
    run.folder.write_text(PUSHED, json.dumps({"model": name, "commit": done.oid}))
    print(f"run {run.name}: its {training.result} is pushed to {done.commit_url}", flush=True)
