//! All that one server counts.

use crate::described::{COUNTER_ENDING, Described, Kind};
use crate::family::Family;
use crate::histogram::{Buckets, Histogram};
use crate::reading::{Reader, Readings};
use crate::text::{self, Format};
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Metric, Registry as Families};

/// All families of a server. Built once, then only read.
#[derive(Debug, Default)]
pub struct Registry {
    families: Families,
    described: Vec<Described>,
}

impl Registry {
    pub fn counter(&mut self, name: &'static str, help: &'static str) -> Counter {
        self.register(Described { name, help, kind: Kind::Counter, labels: &[] }, Counter::default())
    }

    pub fn counters(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &'static [&'static str],
    ) -> Family<Counter> {
        let described = Described { name, help, kind: Kind::Counter, labels };
        self.register(described, Family::new(labels, Counter::default))
    }

    pub fn gauge(&mut self, name: &'static str, help: &'static str) -> Gauge {
        self.register(Described { name, help, kind: Kind::Gauge, labels: &[] }, Gauge::default())
    }

    pub fn gauges(&mut self, name: &'static str, help: &'static str, labels: &'static [&'static str]) -> Family<Gauge> {
        self.register(Described { name, help, kind: Kind::Gauge, labels }, Family::new(labels, Gauge::default))
    }

    pub fn histogram(&mut self, name: &'static str, help: &'static str, buckets: Buckets) -> Histogram {
        self.register(Described { name, help, kind: Kind::Histogram, labels: &[] }, Histogram::new(buckets))
    }

    /// Histograms of times.
    pub fn latencies(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &'static [&'static str],
    ) -> Family<Histogram> {
        let described = Described { name, help, kind: Kind::Histogram, labels };
        self.register(described, Family::new(labels, || Histogram::new(Buckets::LATENCY)))
    }

    /// Families whose values `read` puts when a scraper asks. It should take microseconds, and no lock for long.
    pub fn read(&mut self, families: &[Described], read: impl Fn(&mut Readings<'_>) + Send + Sync + 'static) {
        families.iter().for_each(|family| self.describe(*family));
        self.families.register_collector(Box::new(Reader { families: families.to_vec(), read: Box::new(read) }));
    }

    fn register<M: Metric + Clone>(&mut self, described: Described, metric: M) -> M {
        self.describe(described);
        self.families.register(described.bare_name(), described.help, metric.clone());
        metric
    }

    fn describe(&mut self, family: Described) {
        let Described { name, help, kind, .. } = family;
        assert!(self.described.iter().all(|other| other.name != name), "{name} is registered twice");
        assert_eq!(kind == Kind::Counter, name.ends_with(COUNTER_ENDING), "{name} is a {kind}");
        assert!(!help.contains(['\n', '\\', '"']) && !help.ends_with('.'), "{name}: {help}");
        self.described.push(family);
    }

    /// All families, those that have no series yet among them.
    pub fn families(&self) -> &[Described] {
        &self.described
    }

    /// What a scraper gets.
    pub fn render(&self, format: Format) -> String {
        let mut text = String::new();
        encode_registry(&mut text, &self.families).expect("a string takes everything");
        match format {
            Format::OpenMetrics => {
                encode_eof(&mut text).expect("a string takes everything");
                text
            }
            Format::Prometheus => text::of_prometheus(&text, &self.described),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{counter, gauge};
    use std::time::Duration;

    fn filled() -> Registry {
        let mut registry = Registry::default();
        let errors = registry.counters("levada_errors_total", "Errors", &["method", "error"]);
        errors.with(&["mkdirs", "a \"b\"\\\n"]).inc();
        errors.with(&["never", "made"]);
        registry.counters("levada_unused_total", "Nothing", &["method"]).with(&["x"]);
        registry.gauge("levada_queue_length", "Waiting").set(-3);
        let times = registry.latencies("levada_call_duration_seconds", "Calls", &["method"]);
        times.with(&["mkdirs"]).observe(Duration::from_micros(2_500));
        times.with(&["mkdirs"]).observe(Duration::from_secs(60));
        let read = [gauge("levada_nodes", "Nodes", &["state"]), counter("process_cpu_seconds_total", "CPU", &[])];
        registry.read(&read, |readings| {
            readings.put("levada_nodes", &["live"], 3.0);
            readings.put("process_cpu_seconds_total", &[], 0.25);
        });
        registry
    }

    #[test]
    fn openmetrics_as_the_standard_has_it() {
        let text = filled().render(Format::OpenMetrics);
        assert!(text.starts_with("# HELP levada_errors Errors.\n# TYPE levada_errors counter\n"), "{text}");
        assert!(text.contains("\nlevada_errors_total{method=\"mkdirs\",error=\"a \\\"b\\\"\\\\\\n\"} 1\n"), "{text}");
        assert!(text.ends_with("\n# EOF\n") && !text.contains("unused") && !text.contains("never"), "{text}");
    }

    #[test]
    fn prometheus_names_counters_as_they_are_shown() {
        let text = filled().render(Format::Prometheus);
        assert!(text.starts_with("# HELP levada_errors_total Errors.\n# TYPE levada_errors_total counter\n"), "{text}");
        for line in [
            "# TYPE levada_queue_length gauge",
            "levada_queue_length -3",
            "# TYPE levada_call_duration_seconds histogram",
            "levada_call_duration_seconds_sum{method=\"mkdirs\"} 60.0025",
            "levada_call_duration_seconds_count{method=\"mkdirs\"} 2",
            "levada_call_duration_seconds_bucket{le=\"0.001\",method=\"mkdirs\"} 0",
            "levada_call_duration_seconds_bucket{le=\"0.0025\",method=\"mkdirs\"} 1",
            "levada_call_duration_seconds_bucket{le=\"30.0\",method=\"mkdirs\"} 1",
            "levada_call_duration_seconds_bucket{le=\"+Inf\",method=\"mkdirs\"} 2",
            "levada_nodes{state=\"live\"} 3.0",
            "# TYPE process_cpu_seconds_total counter",
            "process_cpu_seconds_total 0.25",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("EOF") && !text.contains('\r'), "{text}");
    }

    #[test]
    #[should_panic(expected = "registered twice")]
    fn a_name_is_of_one_family() {
        let mut registry = filled();
        registry.gauge("levada_nodes", "Nodes");
    }
}
