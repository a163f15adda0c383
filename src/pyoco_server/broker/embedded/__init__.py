"""The bundled nats-server: its process, its data folder, its guard."""
