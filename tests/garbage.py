"""Keeps the garbage collector away from what lives as long as the tests do."""

import gc

# Imports and thousands of collected tests are no garbage, and to look through them again and again
# takes a third of the collection's time.
gc.disable()


def pytest_collection_finish():
    gc.freeze()
    gc.enable()
