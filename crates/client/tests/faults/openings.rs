//! What earlier runs have read of an opening, asked for in front of a window of columns (op 201, and op 202 behind it),
//! of a datanode that hangs up, is silent or is slow.

#[path = "../../src/ahead/tests/parquet.rs"]
#[allow(dead_code, reason = "each test program uses a part")]
mod parquet;

use crate::support::{Store, Trick, quick};
use client::{Ahead, AheadOptions, Options};
use parquet::Table;
use std::sync::atomic::Ordering;
use std::time::Duration;
use types::ChecksumSpec;
use wire::Abilities;

/// A table on one datanode, of which a run has read the footer and two columns.
struct Known {
    store: Store,
    table: Table,
}

/// What a run has cost.
#[derive(Debug, PartialEq, Eq)]
struct Costs {
    range_requests: usize,
    layout_requests: usize,
    failure_count: u64,
}

/// So near that one connection brings an opening, however long it is.
const ROUND_TRIP: Duration = Duration::from_millis(4);
/// How long the node may be silent.
const STALL: Duration = Duration::from_secs(1);
/// Far above that, and far below the forty seconds that a node may take to find a layout.
const READ_TIME_MAX: Duration = Duration::from_secs(15);

impl Known {
    async fn new(table: Table) -> Self {
        let options =
            Options { timeout: STALL, round_trip: Some(ROUND_TRIP), profile_dir: None, local_reads: false, ..quick() };
        let store = Store::with(1, ChecksumSpec::DEFAULT, 64 << 10, options).await;
        store.book.state().abilities = Some(Abilities::RANGES.bits() | Abilities::LAYOUTS.bits());
        store.book.add_file("/f", &[&table.bytes()]);
        let known = Self { store, table };
        known.run([]).await;
        known
    }

    /// The node plays these tricks on its first requests, in their order; it never answers with a layout.
    async fn run(&self, tricks: impl IntoIterator<Item = Trick>) -> Costs {
        let node = &self.store.nodes[0];
        let counts = || [&node.range_requests, &node.layout_requests].map(|count| count.load(Ordering::Relaxed));
        let before = counts();
        node.script(tricks);
        let file = self.store.client.open("/f").await.unwrap().ahead(&AheadOptions::default()).await.unwrap();
        for place in [self.table.footer(), self.table.chunk(0, 1), self.table.chunk(0, 3)] {
            self.read(&file, place).await;
        }
        file.save().await;
        let [range_requests, layout_requests] = counts();
        Costs {
            range_requests: range_requests - before[0],
            layout_requests: layout_requests - before[1],
            failure_count: file.statistics().failure_count,
        }
    }

    async fn read(&self, file: &Ahead, (offset, len): (u64, u64)) {
        let mut found = vec![0; len as usize];
        let reading = tokio::time::timeout(READ_TIME_MAX, file.read_at(offset, &mut found)).await;
        assert_eq!(reading.expect("no read is held up").unwrap(), found.len());
        assert!(found == self.table.bytes()[offset as usize..][..found.len()], "{len} bytes at {offset}");
    }
}

/// The opening came whole before that, and is used: the next connection is asked for the window alone. Then the columns
/// are read as if there were none.
#[tokio::test]
async fn a_connection_that_ends_behind_the_opening_costs_the_window_alone() {
    let known = Known::new(Table::new(5, 1, 1000)).await;
    let costs = known.run([Trick::Honest, Trick::HangUp]).await;
    assert_eq!(costs, Costs { range_requests: 2, layout_requests: 2, failure_count: 0 });
}

/// It is waited for as at any read, and no longer because a window was asked for, too.
#[tokio::test]
async fn a_node_that_is_silent_is_not_waited_for_as_for_a_layout() {
    let known = Known::new(Table::new(5, 1, 1000)).await;
    let costs = known.run([Trick::Silent]).await;
    assert_eq!(costs, Costs { range_requests: 2, layout_requests: 0, failure_count: 1 });
}

/// It takes longer than the node may be silent, and than the store may take to say where columns lie.
#[tokio::test]
async fn an_opening_that_comes_slowly_is_waited_for() {
    // Ten thousand chunks: a footer that comes in many pieces.
    let known = Known::new(Table::new(100, 100, 10)).await;
    let costs = known.run([Trick::Drip(STALL * 6 / 5)]).await;
    assert_eq!(costs, Costs { range_requests: 2, layout_requests: 1, failure_count: 0 });
}
