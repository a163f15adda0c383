"""The executor process: everything that runs on its side of the sockets."""
