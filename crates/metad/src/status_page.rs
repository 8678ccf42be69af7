//! docs/metrics.md against the code: each number of `/status` that `/metrics` shows is on the page, and nothing else
//! is.

use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// Names of the gauges that `http::metrics` makes of a status, and of those that are absent for now.
fn gauges(name: &str, value: &Value, shown: &mut BTreeSet<String>, absent: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(key, member)| gauges(&format!("{name}_{key}"), member, shown, absent));
        }
        Value::Number(_) | Value::Bool(_) => _ = shown.insert(name.to_owned()),
        Value::Null => _ = absent.insert(name.to_owned()),
        Value::String(_) | Value::Array(_) => {}
    }
}

#[tokio::test]
async fn every_metric_is_on_the_page() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let page = std::fs::read_to_string(page).unwrap();
    let names = page.lines().filter_map(|line| line.strip_prefix("| levada_")?.split(' ').next());
    let listed: BTreeSet<String> = names.map(|name| format!("levada_{name}")).collect();
    let (_dir, metad, core) = crate::sealing::tests::with_node().await;
    let (mut shown, mut absent) = (BTreeSet::new(), BTreeSet::new());
    gauges("levada", &metad.status(), &mut shown, &mut absent);
    let unknown: Vec<_> = shown.difference(&listed).collect();
    assert!(unknown.is_empty(), "not on the page: {unknown:?}");
    let stale: Vec<_> = listed.iter().filter(|name| !shown.contains(*name) && !absent.contains(*name)).collect();
    assert!(stale.is_empty(), "on the page, and not in the code: {stale:?}");
    drop(core);
    metad.shutdown().await;
}
