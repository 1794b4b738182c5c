"""The data of tpu-maxtext: what the recipe says, or Parquet files of the operator's choice."""

from typing import Final

from stacks.keys import Keys

# Where the pods see the stack's bucket.
BUCKET_MOUNT: Final = "/data"
_FILES: Final = rf"(hf://datasets/[\w.-]+|{BUCKET_MOUNT})(/[\w.*-]+)*/[\w.*-]+\.parquet"


def read_data(keys: Keys) -> tuple[str, ...]:
    """Reads the data's key.

    Args:
        keys: The configuration.

    Returns:
        Settings of MaxText, `KEY=VALUE`, in place of the recipe's.
    """
    files = keys.text(
        "dataset",
        _FILES,
        "Parquet files such as hf://datasets/ORGANIZATION/NAME/*.parquet, or of the stack's bucket "
        f"{BUCKET_MOUNT}/FOLDER/*.parquet",
        default="",
        set_as="'hf://datasets/ORGANIZATION/NAME/*.parquet'",
    )
    if not files:
        return ()
    return (
        # Of MaxText's ways to read, the one that a resumed run goes on with where it was.
        "dataset_type=grain",
        "grain_file_type=parquet",
        f"grain_train_files={files}",
        # Llama 3's own, out of MaxText's package: Meta's repository on the Hub is gated.
        "tokenizer_type=tiktoken",
        "tokenizer_path=tokenizer_llama3.tiktoken",
    )
