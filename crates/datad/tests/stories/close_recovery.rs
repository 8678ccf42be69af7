//! A block whose writer did not hear that its end was taken is put by a setup of its own. One story in a program of its
//! own: it counts the syncs of the whole process.

use crate::support::{Ask, Cluster, GENERATION, eventually, pattern};
use hdfs::proto::BlockConstructionStage as Stage;

/// The nodes sync nothing by themselves (`replicated`); the setup does not say what the writer wanted.
#[test]
fn a_block_that_is_closed_by_its_setup_is_on_disk() {
    let cluster = Cluster::new(1);
    let data = pattern(2, 300_000);
    let mut chain = cluster.chain(&[0], &Ask::create(2)).unwrap();
    chain.send_all(&data);
    drop(chain);
    eventually("its stream ends", || cluster.node(0).transfer_count() == 0);

    let before = io::file::sync_count();
    let len = data.len() as u64;
    let ask = Ask::again(2, Stage::PipelineCloseRecovery, GENERATION + 1, len, len);
    let mut closed = cluster.chain(&[0], &ask).unwrap();
    assert!(closed.connection.is_closed());
    let syncs = io::file::sync_count() - before;
    assert!(syncs >= 2, "data and checksums are put with {syncs} syncs");
    assert!(cluster.read(0, 2, 0, len).unwrap() == data);
}
