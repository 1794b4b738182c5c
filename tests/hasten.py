"""A HorizontalPodAutoscaler that does in seconds what its manifest does in minutes."""

from rehearsal.control_plane.api import Api, Object

FASTER = 60


def hasten(api: Api, autoscaler: Object) -> None:
    """Shortens the windows and periods of an autoscaler that is up. The next `up` makes them long again."""
    behavior = (api.get(autoscaler) or {})["spec"]["behavior"]
    for change in behavior.values():
        change["stabilizationWindowSeconds"] //= FASTER
        for policy in change["policies"]:
            policy["periodSeconds"] //= FASTER
    api.patch(autoscaler, {"spec": {"behavior": behavior}})
