"""Why a run is in its state, as findings and actions."""
