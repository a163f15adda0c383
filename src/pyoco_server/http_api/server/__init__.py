"""The HTTP protocol server: uvicorn with bounds on heads and bodies."""
