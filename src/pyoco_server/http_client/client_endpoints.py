"""The endpoints as the client needs them; it starts faster without the records of api/.

Generated from `api/endpoints.py` by `make docs`.
"""

from pyoco_server.http_client.call_types import ClientEndpoint

SUBMIT_RUN = ClientEndpoint("POST", "/runs")
SUBMIT_RUN_YAML = ClientEndpoint("POST", "/runs/yaml")
HEALTH = ClientEndpoint("GET", "/health", repeatable=True)
LIST_RUNS = ClientEndpoint("GET", "/runs", repeatable=True)
WATCH_RUNS = ClientEndpoint("GET", "/runs/watch", repeatable=True)
WATCH_RUN = ClientEndpoint("GET", "/runs/{run_id}/watch", repeatable=True)
GET_RUN = ClientEndpoint("GET", "/runs/{run_id}", repeatable=True)
GET_TASKS = ClientEndpoint("GET", "/runs/{run_id}/tasks", repeatable=True)
GET_LOGS = ClientEndpoint("GET", "/runs/{run_id}/logs", repeatable=True)
CANCEL_RUN = ClientEndpoint("POST", "/runs/{run_id}/cancel", repeatable=True)
RERUN = ClientEndpoint("POST", "/runs/{run_id}/rerun")
EXPLAIN_RUN = ClientEndpoint("GET", "/runs/{run_id}/explain", repeatable=True)
WATCH_WAITS = ClientEndpoint("GET", "/waits/watch", repeatable=True)
LIST_WAITS = ClientEndpoint("GET", "/waits", repeatable=True)
GET_WAIT = ClientEndpoint("GET", "/waits/{wait_id}", repeatable=True)
RESPOND = ClientEndpoint("POST", "/waits/{wait_id}/respond", repeatable=True)
RESUME = ClientEndpoint("POST", "/resume", repeatable=True)
RETRY_RUN = ClientEndpoint("POST", "/runs/{run_id}/retry", repeatable=True)
LIST_LETTERS = ClientEndpoint("GET", "/dlq", repeatable=True)
GET_LETTER = ClientEndpoint("GET", "/dlq/{seq}", repeatable=True)
DELETE_LETTER = ClientEndpoint("DELETE", "/dlq/{seq}")
REPLAY_LETTER = ClientEndpoint("POST", "/dlq/{seq}/replay")
BULK_CANCEL = ClientEndpoint("POST", "/bulk/cancel")
BULK_RERUN = ClientEndpoint("POST", "/bulk/rerun")
REPLAY_LETTERS = ClientEndpoint("POST", "/dlq/replay")
DELETE_LETTERS = ClientEndpoint("POST", "/dlq/delete")
LIST_BULK = ClientEndpoint("GET", "/bulk", repeatable=True)
GET_BULK = ClientEndpoint("GET", "/bulk/{bulk_id}", repeatable=True)
STOP_BULK = ClientEndpoint("POST", "/bulk/{bulk_id}/stop", repeatable=True)
LIST_WORKERS = ClientEndpoint("GET", "/workers", repeatable=True, returns_array=True)
GET_WORKER = ClientEndpoint("GET", "/workers/{worker_id}", repeatable=True)
PATCH_WORKER = ClientEndpoint("PATCH", "/workers/{worker_id}", repeatable=True)
METRICS = ClientEndpoint("GET", "/metrics", repeatable=True)
OVERVIEW = ClientEndpoint("GET", "/overview", repeatable=True)
LIST_WHEELS = ClientEndpoint("GET", "/wheels", repeatable=True, returns_array=True)
WHEEL_HISTORY = ClientEndpoint("GET", "/wheels/history", repeatable=True, returns_array=True)
UPLOAD_WHEEL = ClientEndpoint("POST", "/wheels")
DOWNLOAD_WHEEL = ClientEndpoint("GET", "/wheels/{wheel_name}", repeatable=True)
DELETE_WHEEL = ClientEndpoint("DELETE", "/wheels/{wheel_name}")
REVISION_HEADER = "X-Pyoco-Revision"
# The statuses of runs that have ended.
TERMINAL = frozenset({"COMPLETED", "FAILED", "CANCELLED"})
