//! Test of docs/metrics.md against the code.

use metrics::Format;

#[tokio::test]
async fn the_page_has_what_a_metadata_server_shows() {
    let (_dir, metad, core) = crate::container_sealing::tests::with_node().await;
    let registry = metad.running().as_ref().unwrap().server.metrics();
    let sections = ["Of every server", "Of metadata servers", "Of the leader"];
    let families = registry.families().iter().map(|family| (family.name, family.kind.to_string(), family.labels));
    testkit::metrics_page::compare(&sections, families);
    let text = metad.metrics(Format::Prometheus);
    for series in ["levada_leader 1.0", "levada_datanodes{state=\"live\"} 1.0"] {
        assert!(text.lines().any(|line| line == series), "{series} is not in\n{text}");
    }
    drop((core, registry));
    metad.shutdown().await;
}
