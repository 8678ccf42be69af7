//! The forms in which a scraper takes it.

use crate::described::Described;

/// A text form of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0, which Prometheus asks for.
    OpenMetrics,
    /// Prometheus' own, 0.0.4: what most others read, and people.
    Prometheus,
}

const OPENMETRICS: &str = "application/openmetrics-text";

impl Format {
    /// The form for a request with this `Accept`.
    pub fn of_accept(accept: Option<&str>) -> Self {
        let is_wanted = |range: &str| {
            let mut parts = range.split(';').map(str::trim);
            let is_it = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(OPENMETRICS));
            is_it && !parts.any(|part| part.strip_prefix("q=").and_then(|q| q.parse::<f32>().ok()) == Some(0.0))
        };
        if accept.is_some_and(|accept| accept.split(',').any(is_wanted)) { Self::OpenMetrics } else { Self::Prometheus }
    }

    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// OpenMetrics' text as Prometheus' older form: there a counter's own lines have the name of its series.
pub(crate) fn of_prometheus(openmetrics: &str, families: &[Described]) -> String {
    let mut text = String::with_capacity(openmetrics.len() + 64 * families.len());
    for line in openmetrics.lines() {
        let about = ["# HELP ", "# TYPE "].into_iter().find_map(|word| Some((word, line.strip_prefix(word)?)));
        match about.and_then(|(word, rest)| Some((word, rest.split_once(' ')?))) {
            Some((word, (name, rest))) => {
                let family = families.iter().find(|family| family.bare_name() == name);
                [word, family.map_or(name, |family| family.name), " ", rest].iter().for_each(|part| text += part);
            }
            None => text += line,
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_what_the_scraper_takes() {
        let of = |accept| Format::of_accept(Some(accept));
        assert_eq!(Format::of_accept(None), Format::Prometheus);
        assert_eq!(of("*/*"), Format::Prometheus);
        assert_eq!(of("text/plain;version=0.0.4;q=1,*/*;q=0.1"), Format::Prometheus);
        assert_eq!(of("application/openmetrics-text; q=0, text/plain"), Format::Prometheus);
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
        assert_eq!(of(prometheus), Format::OpenMetrics);
    }
}
