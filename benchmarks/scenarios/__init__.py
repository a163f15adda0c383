"""The measurements of the product alone: `make help` lists them as `bench-...`."""
