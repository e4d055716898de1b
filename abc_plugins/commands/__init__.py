"""The commands that read tables, and what they share; `abc_plugins.cli` leads to them."""
