"""What every benchmark uses: processes, a load of HTTP requests, gateways, stored runs."""
