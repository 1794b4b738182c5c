"""The encryption of what a component creates."""

import pulumi_gcp as gcp


def bucket_encryption(kms_key: str | None) -> gcp.storage.BucketEncryptionArgs | None:
    """The encryption of a bucket's new objects with this key. None means a key of Google's."""
    return gcp.storage.BucketEncryptionArgs(default_kms_key_name=kms_key) if kms_key else None
