"""Messages to other systems: signed webhooks, Google Chat and mail, and which addresses they may have."""
