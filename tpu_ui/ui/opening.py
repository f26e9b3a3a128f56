"""The door of the app as its settings have it."""

from collections.abc import Mapping

from tpu_ui.passwords import Secret
from tpu_ui.settings import HubSettings, Settings
from tpu_ui.ui.allowance import Allowance
from tpu_ui.ui.door import Door, door_of
from tpu_ui.ui.hub import Hub


def opened(chosen: Settings, logins: Mapping[str, Secret], locked_at_start: bool) -> Door:
    """`logins`: all that go with a password, the owner's among them. What is shared or hosted is
    nobody's without a login, locked or not."""
    owner = chosen.auth or chosen.owner
    return door_of(
        owner=owner[0] if owner else "",
        logins=logins,
        closed=chosen.auth is not None,
        hub=None if chosen.hub is None else _hub(chosen.hub),
        hub_owners=chosen.hub_owners,
        locked_at_start=locked_at_start or chosen.share or chosen.hosted,
        allowance=Allowance(chosen.rate, chosen.images_per_hour),
    )


def _hub(there: HubSettings) -> Hub:
    return Hub(there.provider, there.client_id, there.client_secret, there.scopes, there.own_host)
