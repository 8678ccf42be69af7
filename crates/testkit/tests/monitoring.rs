//! What is handed out for Prometheus and Grafana asks for metrics that docs/metrics.md has, which servers are held to.

use std::collections::BTreeMap;
use std::path::Path;

/// What a scrape adds.
const SCRAPED: [&str; 3] = ["job", "instance", "role"];
const HISTOGRAM_PARTS: [&str; 3] = ["_bucket", "_sum", "_count"];

fn text(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Names of the page's families, with type and labels.
fn families() -> BTreeMap<String, (String, String)> {
    let page = text("docs/metrics.md");
    let rows = page.lines().filter(|line| line.starts_with("| levada_") || line.starts_with("| process_"));
    let cells = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
    cells.map(|cells| (cells[1].to_owned(), (cells[2].to_owned(), cells[3].to_owned()))).collect()
}

/// Each metric that an expression names, and the labels that it is chosen by.
fn metrics(text: &str) -> Vec<(&str, Vec<&str>)> {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let mut found = Vec::new();
    for (start, _) in text.match_indices("levada_").chain(text.match_indices("process_")) {
        if text[..start].ends_with(is_name) {
            continue;
        }
        let name = text[start..].split(|letter| !is_name(letter)).next().unwrap_or_default();
        let behind = &text[start + name.len()..];
        let chosen = behind.strip_prefix('{').and_then(|inside| inside.split('}').next()).unwrap_or_default();
        let labels = chosen.split(',').filter_map(|part| part.split(['=', '!']).next()).map(str::trim);
        found.push((name, labels.filter(|label| !label.is_empty()).collect()));
    }
    found
}

#[test]
fn alerts_and_board_ask_for_metrics_that_servers_have() {
    let families = families();
    let unescaped = text("monitoring/grafana.json").replace("\\\"", "\"");
    for (file, text) in [("alerts.yml", text("monitoring/alerts.yml")), ("grafana.json", unescaped)] {
        let asked = metrics(&text);
        assert!(asked.len() > 20, "{file}: {}", asked.len());
        for (name, labels) in asked {
            let of_part = HISTOGRAM_PARTS.iter().find_map(|part| families.get(name.strip_suffix(part)?));
            let (kind, known) = match (families.get(name), of_part) {
                (Some(family), _) => family,
                (None, Some(family)) if family.0 == "histogram" => family,
                _ => panic!("{file} asks for {name}, which docs/metrics.md does not have"),
            };
            assert!(kind != "histogram" || !families.contains_key(name), "{file}: {name} is a histogram: which part?");
            for label in labels {
                let is_known = SCRAPED.contains(&label) || known.split(", ").any(|known| known == label);
                assert!(is_known, "{file}: {name} has no label {label}, but {known:?}");
            }
        }
    }
    let board: serde_json::Value = serde_json::from_str(&text("monitoring/grafana.json")).unwrap();
    assert!(board["panels"].as_array().unwrap().iter().all(|panel| panel["title"].is_string()));
}

/// A server whose page does not answer shows nothing that the other alerts go by.
#[test]
fn an_alert_is_raised_for_a_page_of_any_role_that_does_not_answer() {
    let alerts = text("monitoring/alerts.yml");
    let chosen: Vec<&str> = alerts.split("up{role=").skip(1).filter_map(|rest| rest.split('}').next()).collect();
    for role in ["metadata", "datanode", "gateway"] {
        assert!(chosen.iter().any(|chosen| chosen.contains(role)), "{role}: {chosen:?}");
    }
}
