"""The settings: one table, read from the environment."""

from pyoco_server.config.setting import Setting, safe_url
from pyoco_server.config.settings_table import SETTINGS, NatsBackendConfig

__all__ = ["SETTINGS", "NatsBackendConfig", "Setting", "safe_url"]
