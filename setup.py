"""For tools that call setup.py; the metadata stand in setup.cfg."""

from setuptools import setup

setup()
