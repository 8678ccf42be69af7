//! docs/metrics.md against the code.

use crate::{Config, start};
use metrics::Format;

/// There is no metadata server.
const WAITS: &str = "levada_registered 0.0";

#[tokio::test]
async fn the_page_has_what_a_datanode_shows() {
    let dir = tempfile::tempdir().unwrap();
    let any = ([127, 0, 0, 1], 0).into();
    let node = start(Config::new(dir.path().to_owned(), any, any, "127.0.0.1:1".into())).await.unwrap();
    let families = node.metrics.families().iter().map(|family| (family.name, family.kind.to_string(), family.labels));
    testkit::metrics_page::compare(&["Of every server", "Of datanodes"], families);
    let text = node.metrics().render(Format::Prometheus);
    let dir = dir.path().display();
    for series in [format!("levada_disk_ok{{dir=\"{dir}\"}} 1.0"), "levada_transfers 0.0".to_owned(), WAITS.to_owned()]
    {
        assert!(text.lines().any(|line| line == series), "{series} is not in\n{text}");
    }
    node.shutdown().await;
}
