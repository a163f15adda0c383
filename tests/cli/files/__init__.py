"""Commands that list, upload and download files."""
