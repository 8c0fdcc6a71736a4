"""Reads what /metrics shows."""

import re
from functools import cached_property

from prometheus_client.parser import text_string_to_metric_families


def samples_in(text):
    return [sample for family in text_string_to_metric_families(text) for sample in family.samples]


class Exposition:
    """The samples of one answer, which can be asked for sums."""

    def __init__(self, text):
        self.text = text

    @cached_property
    def samples(self):
        """All of them: a process that has run many tests has thousands."""
        return samples_in(self.text)

    @cached_property
    def names(self):
        return {sample.name for sample in self.samples}

    def sum(self, name, **labels):
        """Return the sum of a metric, over all labels but those given."""
        begins = tuple(f"quartermaster_{name}{sign}" for sign in "{ ")
        parts = [f'{label}="{value}"' for label, value in labels.items()]
        lines = [
            line
            for line in self.text.splitlines(True)
            if line.startswith(begins) and all(part in line for part in parts)
        ]
        found = samples_in("".join(lines))
        return sum(sample.value for sample in found if labels.items() <= sample.labels.items())

    def values_of(self, label):
        return set(re.findall(rf'[{{,]{label}="([^"]*)"', self.text))
