"""The sweep: repairs orphaned runs and removes what retention allows."""
