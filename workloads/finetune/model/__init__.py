"""The model: how it is loaded, adapted, packed and sharded."""
