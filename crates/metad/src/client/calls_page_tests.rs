//! Test of docs/hdfs-calls.md against the code: every answered call is on the page, and every call on the page is
//! answered. Calls that the page names as refused are refused, with the exception it names.

use super::ROWS;
use crate::door;
use crate::door::table::PROTOCOLS;
use crate::leadership::Leadership;
use bytes::Bytes;
use hdfs::exception::{RPC_NO_SUCH_METHOD, RPC_SERVER, UNSUPPORTED_OPERATION};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// A row of a table: the cells of a line.
struct Row {
    cells: Vec<String>,
}

impl Row {
    /// The names of calls in a cell, without what stands in parentheses behind them.
    fn calls(&self, cell: usize) -> Vec<String> {
        let mut text = self.cells[cell].clone();
        while let (Some(from), Some(to)) = (text.find('('), text.find(')')) {
            text.replace_range(from..=to, "");
        }
        let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
        names.map(str::to_owned).collect()
    }
}

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The rows of the table below this heading, without its head.
fn table(heading: &str) -> Vec<Row> {
    let page = read("docs/hdfs-calls.md");
    let (_, section) = page.split_once(&format!("\n## {heading}")).expect("the page has that heading");
    let section = section.split("\n## ").next().unwrap_or_default();
    let lines = section.lines().filter(|line| line.starts_with('|')).skip(2);
    let row =
        |line: &str| Row { cells: line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect() };
    lines.map(row).collect()
}

#[tokio::test]
async fn every_call_of_clients_is_on_the_page_and_answered_as_it_says() {
    let rows = table("ClientProtocol");
    let listed: Vec<String> = rows.iter().flat_map(|row| row.calls(0)).collect();
    let known: BTreeSet<&str> = listed.iter().map(String::as_str).collect();
    let routed: BTreeSet<&str> = ROWS.iter().map(|row| row.name).collect();
    let missing: Vec<_> = routed.difference(&known).collect();
    assert!(missing.is_empty(), "not on the page: {missing:?}");

    let (_dir, metad, core) = crate::container_sealing::tests::with_node().await;
    drop(core);
    let leadership = Arc::clone(&metad.running().as_ref().unwrap().server.leadership);
    let mut wrong = Vec::new();
    for row in &rows {
        for name in row.calls(0) {
            let is_routed = routed.contains(name.as_str());
            let class = class_of(&leadership, &name).await;
            let as_said = match row.cells[1].as_str() {
                "refused" => class == Some(UNSUPPORTED_OPERATION),
                "unknown method" => class == Some(RPC_NO_SUCH_METHOD) && !is_routed,
                "as HDFS" | "as unused" | "one policy" => is_routed,
                other => panic!("the page answers {name} by {other:?}, which this test does not know"),
            };
            if !as_said {
                wrong.push(format!("{name}: the page says {:?}, the code answers {class:?}", row.cells[1]));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    drop(leadership);
    metad.shutdown().await;
}

/// How a call is refused that names the root, where its first field is a path, or nothing at all.
async fn class_of(leadership: &Arc<Leadership>, name: &str) -> Option<&'static str> {
    const ROOT: &[u8] = &[0x0a, 1, b'/'];
    let ask = async |body| {
        let call = rpc::Call {
            protocol: hdfs::protocol::CLIENT.to_owned(),
            method: name.to_owned(),
            version: hdfs::protocol::VERSION,
            body: Bytes::from_static(body),
            user: rpc::Identity::simple(leadership.users.owner().to_owned(), None).into(),
            client_id: Bytes::new(),
            call_id: -1,
            retry_count: 0,
            peer: ([127, 0, 0, 1], 1).into(),
            is_private: true,
            untaken: rpc::Untaken::default(),
        };
        door::pass(leadership, call).await.err().map(|refused| refused.class)
    };
    match ask(ROOT).await {
        Some(RPC_SERVER) => ask(&[]).await,
        class => class,
    }
}

/// Names in quotes that a source matches calls by.
fn arms(path: &str) -> BTreeSet<String> {
    let source = read(path);
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    let mut found = BTreeSet::new();
    for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
        // The patterns of a match stand before its arrow; those that go on over lines begin with `"` or `|`.
        let is_pattern = line.contains("=>") || line.trim_start().starts_with(['"', '|']);
        let patterns = line.split("=>").next().unwrap_or_default();
        if !is_pattern {
            continue;
        }
        let quoted = patterns.split('"').skip(1).step_by(2);
        found
            .extend(quoted.filter(|name| name.chars().all(|letter| letter.is_ascii_alphanumeric())).map(str::to_owned));
    }
    found
}

#[test]
fn every_call_of_tools_is_on_the_page() {
    const DATANODE: &str = "crates/datad/src/ipc.rs";
    // Protocols that share rows of the page have one set of calls.
    let sources = BTreeMap::from([
        ("HAServiceProtocol", "ha"),
        ("GetUserMappingsProtocol", "mappings"),
        ("RefreshUserMappingsProtocol", "mappings"),
        ("RefreshAuthorizationPolicyProtocol", "settings"),
        ("RefreshCallQueueProtocol", "settings"),
        ("GenericRefreshProtocol", "settings"),
        ("ReconfigurationProtocol", "settings"),
        ("NamenodeProtocol", "balancer"),
        ("ClientDatanodeProtocol", DATANODE),
    ]);
    let (mut protocol, mut on_page) = (String::new(), BTreeMap::<&str, BTreeSet<String>>::new());
    for row in table("Other protocols") {
        if !row.cells[0].is_empty() {
            protocol.clone_from(&row.cells[0]);
        }
        let names: Vec<&str> = protocol.split([',', ' ']).filter(|word| word.ends_with("Protocol")).collect();
        for source in names.iter().filter_map(|name| sources.get(name)) {
            on_page.entry(source).or_default().extend(row.calls(1));
        }
    }
    let mut in_code = BTreeMap::from([(DATANODE, arms(DATANODE))]);
    for protocol in PROTOCOLS {
        let source = protocol.name.rsplit('.').next().and_then(|name| sources.get(name));
        let names = protocol.methods.iter().map(|method| method.name.to_owned());
        source.into_iter().for_each(|source| in_code.entry(source).or_default().extend(names.clone()));
    }
    assert_eq!(on_page, in_code, "left: the page, right: the code");
}
