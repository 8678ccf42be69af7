//! A node with a certificate: which node it is, and whom it takes for a metadata server.

use crate::support::Cluster;
use datad::{Config, StartError};
use rpc::{CallError, Client, ClientOptions};
use security::node_name::{Expected, NodeName};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tls::{Authority, Credentials};
use types::{Millis, NodeId};
use wire::node::REPLICA_PROTOCOL;
use wire::tree::{TREE, TreeRequest, TreeResponse};

const ID: NodeId = NodeId([7; 16]);
const OTHER: NodeId = NodeId([8; 16]);

fn equip(dir: &Path, ca: &str, name: NodeName) -> PathBuf {
    let (ca, to) = (dir.join(ca), dir.join(format!("{ca} {}", name.to_string().replace('/', "_"))));
    let now = Millis(io::Clock::now(&io::SystemClock::new()).0);
    Authority::open_or_make(&ca, now).unwrap().equip(&to, name, &[], now).unwrap();
    to
}

fn with_certificate(dir: &Path, name: NodeName) -> impl Fn(&mut Config) {
    let certificates = equip(dir, "ca", name);
    move |config| config.node_certificates = Some(certificates.clone())
}

/// An address is no proof where servers have certificates.
#[test]
fn orders_are_taken_from_those_who_prove_to_be_metadata_servers() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let cluster = Cluster::with(1, with_certificate(dir, NodeName::Datanode(ID)));
    let ask = |options: ClientOptions| {
        let addr = cluster.node(0).ipc_addr().to_string();
        let client = Client::with_options(addr, "metad".into(), REPLICA_PROTOCOL, options);
        cluster.runtime.block_on(client.call::<_, TreeResponse>(TREE, &TreeRequest::default()))
    };
    let server = |ca: &str, name, expected| {
        let credentials = Arc::new(Credentials::open(&equip(dir, ca, name)).unwrap());
        ClientOptions::default().with_node(Some(&credentials), Expected::Node(NodeName::Datanode(expected)))
    };
    let member = NodeName::Member(1);
    for refused in [ClientOptions::default(), server("ca", NodeName::Datanode(OTHER), ID)] {
        let error = ask(refused).unwrap_err();
        assert!(error.to_string().contains("which show a certificate of this store"), "{error}");
    }
    ask(server("ca", member, ID)).unwrap();
    // What a metadata server asks of another node, this one does not hear.
    for stranger in [server("ca", member, OTHER), server("another ca", member, ID)] {
        let error = ask(stranger).unwrap_err();
        assert!(matches!(error, CallError::Connect(_) | CallError::Broken(_)), "{error}");
    }
}

#[test]
fn new_disks_are_those_of_the_node_that_the_certificate_names() {
    let dir = tempfile::tempdir().unwrap();
    let of = |name| with_certificate(dir.path(), name);
    let mut cluster = Cluster::with(1, of(NodeName::Datanode(ID)));
    assert_eq!(cluster.node(0).node_id(), ID);
    cluster.stop(0);
    let foreign = cluster.start_with(0, of(NodeName::Datanode(OTHER))).unwrap_err();
    assert!(foreign.to_string().contains(&format!("belongs to node {ID}, not to {OTHER}")), "{foreign}");
    let member = cluster.start_with(0, of(NodeName::Member(1))).unwrap_err();
    assert!(matches!(member, StartError::OthersCertificate { .. }), "{member}");
    cluster.start_with(0, of(NodeName::Datanode(ID))).unwrap();
}
