"""What Dataflow's --setup_file takes; the metadata is in pyproject.toml."""

from setuptools import setup

setup()
