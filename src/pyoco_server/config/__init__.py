"""The settings: one table, read from the environment."""

from pyoco_server.config.setting import Setting
from pyoco_server.config.settings_table import SETTINGS, NatsBackendConfig, safe_url

__all__ = ["SETTINGS", "NatsBackendConfig", "Setting", "safe_url"]
