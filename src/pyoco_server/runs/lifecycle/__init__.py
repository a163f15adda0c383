"""What happens to one run: submit, claim, cancel, rerun."""
