"""The read model of waits: index, lists, feed and the inbox stream."""
