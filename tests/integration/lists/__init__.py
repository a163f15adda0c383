"""Lists, watches, logs and the index behind them."""
