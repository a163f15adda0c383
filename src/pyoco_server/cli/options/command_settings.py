"""Settings of the environment that the command line overrides."""

import os
import sys
from dataclasses import replace
from typing import Any

from dotenv import dotenv_values

from pyoco_server.config import NatsBackendConfig


def settings_with(**options: Any) -> NatsBackendConfig:
    """The settings of the environment, except where an option is given."""
    given = {name: value for name, value in options.items() if value is not None}
    return replace(NatsBackendConfig.from_env(), **given)


def service_settings(**options: Any) -> NatsBackendConfig:
    """The same for a program that logs: on a terminal as text, unless PYOCO_LOG_FORMAT is set."""
    config = settings_with(**options)
    if sys.stdout.isatty() and not is_set("PYOCO_LOG_FORMAT", config):
        return replace(config, log_format="text")
    return config


def is_set(name: str, config: NatsBackendConfig) -> bool:
    """Whether the environment or its file has this variable, even if with the default value."""
    if os.environ.get(name):
        return True
    return config.load_dotenv and bool(dotenv_values(config.env_file, encoding="utf-8-sig").get(name))
