//! What a scraper of `/metrics` reads of the node and its disks: docs/metrics.md has all of it.

use crate::node::Node;
use io::{Clock, SystemClock};
use metrics::{Described, Readings, Registry, gauge};
use std::sync::Arc;
use tls::Credentials;

const FAMILIES: &[Described] = &[
    gauge("levada_registered", "1 if a metadata server that leads knows the datanode, 0 while it waits for that", &[]),
    gauge("levada_transfers", "Operations of data transfer under way", &[]),
    gauge("levada_transfers_max", "As many may be under way at a time", &[]),
    gauge("levada_buffer_bytes", "Memory that streams and requests hold", &[]),
    gauge("levada_buffer_max_bytes", "As much may be held at a time", &[]),
    gauge("levada_layout_kept_bytes", "Layouts of files that are kept on the disk, once one was asked for", &[]),
    gauge("levada_repairs_waiting", "Ordered copies that wait for their turn or are under way", &[]),
    gauge("levada_disk_ok", "1 if the disk takes writes, 0 if it failed, is full or missing", DIR),
    gauge("levada_disk_capacity_bytes", "Capacity of the disk, without what is reserved", DIR),
    gauge("levada_disk_used_bytes", "Taken by replicas on the disk", DIR),
    gauge("levada_disk_free_bytes", "Free for replicas on the disk", DIR),
    gauge("levada_disk_replicas", "Replicas on the disk", DIR),
    gauge("levada_disk_streams", "Replicas that are being written on the disk", DIR),
    gauge("levada_disk_unread_seconds", "Time since the replica that waits longest for the scrub was read", DIR),
];

const CERTIFICATE: &[Described] = &[gauge(
    "levada_certificate_not_after_timestamp_seconds",
    "When the certificate of this server ends or has ended, since 1970",
    &[],
)];

const DIR: &[&str] = &["dir"];

/// Adds what is read of the datanode at the moment of a scrape. `own`: its certificate, if it has one.
pub(crate) fn register(registry: &mut Registry, node: &Arc<Node>, own: Option<Arc<Credentials>>) {
    host::process::register(registry, "datanode");
    // Weak: a node that ends is not to be kept by who scrapes it.
    let node = Arc::downgrade(node);
    registry.read(FAMILIES, move |readings| {
        if let Some(node) = node.upgrade() {
            read(&node, readings);
        }
    });
    registry.read(CERTIFICATE, move |readings| {
        if let Some(end) = own.as_ref().and_then(|own| own.end(SystemClock::new().now())) {
            readings.put(CERTIFICATE[0].name, &[], end.0 as f64 / 1e3);
        }
    });
}

fn read(node: &Node, readings: &mut Readings<'_>) {
    let mut put = |name, value: f64| readings.put(name, &[], value);
    put("levada_registered", if node.is_registered() { 1.0 } else { 0.0 });
    put("levada_transfers", node.admission.transfer_count() as f64);
    put("levada_transfers_max", node.admission.transfer_count_max() as f64);
    put("levada_buffer_bytes", (node.service.budget.used_len() + node.service.fronts.used_len()) as f64);
    put("levada_buffer_max_bytes", (node.service.budget.len() + node.service.fronts.len()) as f64);
    put("levada_layout_kept_bytes", node.port.layouts.kept_len() as f64);
    put("levada_repairs_waiting", node.replicas.node.with(|node| node.copies.known_count()) as f64);
    for disk in node.replicas.disks.reports() {
        let mut put = |name, value: f64| readings.put(name, &[&disk.dir], value);
        put("levada_disk_ok", if disk.failure.is_empty() { 1.0 } else { 0.0 });
        put("levada_disk_capacity_bytes", disk.capacity_len as f64);
        put("levada_disk_used_bytes", disk.used_len as f64);
        put("levada_disk_free_bytes", disk.free_len as f64);
        put("levada_disk_replicas", disk.replica_count as f64);
        put("levada_disk_streams", disk.stream_count as f64);
        if let Some(unread_ms) = disk.unread_ms {
            put("levada_disk_unread_seconds", unread_ms as f64 / 1e3);
        }
    }
}
