"""One page of `/metrics`, parsed."""

from prometheus_client.parser import text_string_to_metric_families

from pyoco_server.http_api.metrics.metric_page import MetricPage
from pyoco_server.http_api.metrics.run_timings import RunTimings


class Scrape:
    def __init__(self, text: str) -> None:
        self.text = text
        self._samples = {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    @classmethod
    def of(cls, timings: RunTimings) -> "Scrape":
        page = MetricPage()
        timings.report_to(page)
        return cls(page.text().decode())

    def value(self, name: str, **labels: str) -> float | None:
        return self._samples.get((name, tuple(sorted(labels.items()))))

    def labels(self, name: str, label: str) -> set[str]:
        return {dict(labels)[label] for sample, labels in self._samples if sample == name}
