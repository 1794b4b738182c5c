"""The operator's commands around `pulumi up`: `python -m operations COMMAND`."""
