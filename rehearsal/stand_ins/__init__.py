"""Stand-ins for servers that pods use: Cloud Storage, a Hugging Face Hub, a metadata server.

They import only the standard library, because the training environments import them too.
"""
