//! What is fuzzed: one function of bytes for each parser of what strangers send, what our own nodes send, and what lies
//! on disk.
//!
//! ```text
//!   cargo test -p fuzzed                      golden bytes, the kept corpus, and mutations of both from a seed
//!   cargo +nightly fuzz run TARGET            libFuzzer, for as long as one likes (see fuzz/README.md)
//!            └──────── both call the functions of [`TARGETS`] ────────┘
//! ```
//!
//! Promise asked of each: no bytes make it panic, run for long, or take memory beyond a bound, and what it reads it
//! writes again as the same. Where a checksum would stop every mutation at the door, the target sets it right and goes
//! on behind.

mod auth;
mod layouts;
mod messages;
mod ranges;
mod reads;
mod seeds;
mod small;
mod store;
mod target;
mod transfer;
mod write;
mod writer;

use security::joining::JoinToken;
use security::negotiation::Offered;
use std::cell::RefCell;
use std::fs::File;

const HDFS: &str = "hdfs/tests/golden";
const WIRE: &str = "wire/tests/golden";
const RECORDS: &str = "raft/src/golden_records.txt";
const MESSAGES: &str = "raft/src/golden_messages.txt";
const EDGE: &str = "edge/src/golden.txt";
const POSITIONS: &str = "raft/src/golden_positions.txt";
const VOLUME: &str = "container/src/golden.txt";
const BLOCK_TOKENS: &str = "security/tests/golden/block_token.txt";
const DELEGATION_TOKENS: &str = "security/tests/golden/delegation.txt";

pub const TARGETS: &[Target] = &[
    Target { name: "rpc", run: messages::rpc, golden: &[HDFS] },
    Target { name: "hdfs_messages", run: messages::hdfs_messages, golden: &[] },
    Target { name: "own_messages", run: messages::own_messages, golden: &[] },
    Target { name: "operations", run: transfer::operations, golden: &[WIRE] },
    Target { name: "local_reads", run: transfer::local_reads, golden: &[] },
    Target { name: "small_writes", run: small::small_writes, golden: &[] },
    Target { name: "ranges_asked", run: ranges::asked, golden: &[] },
    Target { name: "ranges_received", run: ranges::received_any, golden: &[] },
    Target { name: "packets", run: transfer::packets, golden: &[WIRE] },
    Target { name: "write_streams", run: write::write_streams, golden: &[WIRE] },
    Target { name: "reads_received", run: reads::received, golden: &[] },
    Target { name: "reads_sent", run: reads::sent, golden: &[] },
    Target { name: "writer_answers", run: writer::answers, golden: &[WIRE] },
    Target { name: "tokens", run: auth::tokens, golden: &[BLOCK_TOKENS, DELEGATION_TOKENS] },
    Target { name: "sasl_digest", run: auth::digest, golden: &[] },
    Target { name: "sasl_rpc", run: auth::rpc, golden: &[] },
    Target { name: "sasl_transfer", run: auth::transfer, golden: &[] },
    Target { name: "negotiation", run: negotiation, golden: &[] },
    Target { name: "gateway", run: at_gateway, golden: &[] },
    Target { name: "xrootd_sessions", run: xroot::fuzz::session, golden: &[] },
    Target { name: "names", run: auth::names, golden: &[] },
    Target { name: "replica_headers", run: replica_headers, golden: &[VOLUME] },
    Target { name: "packs", run: packs, golden: &[] },
    Target { name: "index_rows", run: container::fuzz::row, golden: &[VOLUME] },
    Target { name: "volume_identities", run: container::fuzz::identity, golden: &[] },
    Target { name: "kv_store", run: store::kv_store, golden: &[] },
    Target { name: "kv_chunks", run: kv::fuzz::chunk, golden: &[] },
    Target { name: "log_segments", run: raft::fuzz::segment, golden: &[RECORDS] },
    Target { name: "log_records", run: raft::fuzz::records, golden: &[RECORDS] },
    Target { name: "raft_messages", run: raft_messages, golden: &[MESSAGES, POSITIONS] },
    Target { name: "namespace_rows", run: namespace::fuzz::row, golden: &[] },
    Target { name: "block_rows", run: blocks::fuzz::row, golden: &[] },
    Target { name: "profiles", run: prefetch::fuzz::profile, golden: &[] },
    Target { name: "edge_segments", run: edge::fuzz::segment, golden: &[EDGE] },
    Target { name: "ring_rows", run: security::rings::row_of, golden: &[] },
    Target { name: "joining", run: joining, golden: &[] },
    Target { name: "layouts_of_parquet", run: layouts::file, golden: &[] },
    Target { name: "layouts_of_root", run: layouts::file, golden: &[] },
    Target { name: "layouts_of_ntuples", run: layouts::file, golden: &[] },
    Target { name: "layouts_of_arrow", run: layouts::file, golden: &[] },
    Target { name: "layouts_of_orc", run: layouts::file, golden: &[] },
    Target { name: "root_objects", run: layouts::root_object, golden: &[] },
    Target { name: "root_trees", run: layouts::root_tree, golden: &[] },
    Target { name: "layout_records", run: layouts::record, golden: &[] },
    Target { name: "layouts_asked", run: layouts::asked, golden: &[] },
    Target { name: "commands", run: store::commands, golden: &[] },
];

pub use seeds::{kept, seeds};
pub use target::Target;

/// Runs a target by its name.
pub fn run(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("a target of that name");
    (target.run)(bytes);
}

/// Rows of invitations, and tokens as people copy them. A token has one text.
fn joining(bytes: &[u8]) {
    security::joining::row_of(bytes);
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Ok(token) = JoinToken::parse(text)
    {
        assert_eq!(token.text(), text);
    }
}

/// What comes with a request over HTTP. What is taken out of it is a part of it.
fn negotiation(bytes: &[u8]) {
    if let Ok(offered) = Offered::read(bytes) {
        assert!(offered.token.len() <= bytes.len() && offered.answer(offered.token).len() >= offered.token.len());
    }
}

/// What a gateway reads of who comes to it.
fn at_gateway(bytes: &[u8]) {
    gateway::fuzz::preface(bytes);
    gateway::fuzz::ranges(bytes);
}

fn replica_headers(bytes: &[u8]) {
    container::fuzz::header(bytes);
    container::fuzz::record(bytes);
}

/// The first byte says whether headers get checksums that fit.
fn packs(bytes: &[u8]) {
    let Some((seal, pack)) = bytes.split_first() else { return };
    with_file(|file| container::fuzz::pack(pack, seal % 2 == 1, file).expect("a temporary file can be written"));
}

fn raft_messages(bytes: &[u8]) {
    raft::fuzz::message(bytes);
    raft::fuzz::position(bytes);
}

/// A file that one run after the other overwrites.
fn with_file(run: impl FnOnce(&File)) {
    thread_local! {
        static FILE: RefCell<Option<File>> = const { RefCell::new(None) };
    }
    FILE.with_borrow_mut(|file| run(file.get_or_insert_with(|| tempfile::tempfile().expect("a temporary file"))));
}
