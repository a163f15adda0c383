"""Code that is distributed as wheels: the registry's rules, and what a worker installs."""
