"""Reads what /metrics shows."""

from prometheus_client.parser import text_string_to_metric_families


class Exposition:
    """The samples of one answer, which can be asked for sums."""

    def __init__(self, text):
        self.text = text
        self.samples = [
            sample for family in text_string_to_metric_families(text) for sample in family.samples
        ]
        self.names = {sample.name for sample in self.samples}

    def sum(self, name, **labels):
        """Return the sum of a metric, over all labels but those given."""
        return sum(
            sample.value
            for sample in self.samples
            if sample.name == f"quartermaster_{name}" and labels.items() <= sample.labels.items()
        )

    def values_of(self, label):
        return {sample.labels[label] for sample in self.samples if label in sample.labels}
