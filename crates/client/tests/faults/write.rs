//! Writers whose chains break.

use crate::support::{Store, Trick, bytes, quick};
use client::{Client, Create, Error, Options, Writer};
use hdfs::proto::op_write_block_proto::BlockConstructionStage as Stage;
use std::sync::atomic::Ordering;
use std::time::Duration;
use types::ChecksumSpec;

async fn create(client: &Client) -> Writer {
    client.create("/f", &Create::default()).await.unwrap()
}

/// Writes `data` in steps of `step` and closes; the nodes must hold just that.
async fn writes_whole(store: &Store, data: &[u8], step: usize) {
    let mut writer = create(&store.client).await;
    for piece in data.chunks(step) {
        writer.write(piece).await.unwrap();
    }
    assert_eq!(writer.position(), data.len() as u64);
    writer.close().await.unwrap();
    assert!(store.book.contents("/f") == data, "other bytes than those written");
}

fn stages(store: &Store, node: usize) -> Vec<Stage> {
    store.nodes[node].stages.lock().unwrap().iter().map(|stage| Stage::try_from(*stage).unwrap()).collect()
}

#[tokio::test]
async fn files_of_all_lengths() {
    for len in [0, 1, 511, 512, 513, 65_535, 65_536, 65_537, 1 << 20, (1 << 20) + 1, 3_000_000] {
        let store = Store::new(3).await;
        writes_whole(&store, &bytes(len), 10_007).await;
        assert_eq!(store.book.count("addBlock"), len.div_ceil(1 << 20));
    }
}

#[tokio::test]
async fn a_node_that_cannot_be_reached_is_excluded() {
    let store = Store::new(3).await;
    store.nodes[0].script([Trick::HangUp]);
    // The next chain begins at node 1, which cannot reach node 2.
    store.nodes[1].script([Trick::Refuse { first_bad_link: store.nodes[2].addr() }]);
    writes_whole(&store, &bytes(100_000), 1 << 20).await;
    assert_eq!(store.book.count("abandonBlock"), 2);
    assert_eq!(stages(&store, 1), [Stage::PipelineSetupCreate; 2]);
    assert!(stages(&store, 2).is_empty());
}

#[tokio::test]
async fn a_store_without_nodes_refuses_in_its_own_words_and_says_what_was_tried() {
    let store = Store::new(1).await;
    store.nodes[0].script([Trick::HangUp, Trick::HangUp]);
    let mut writer = create(&store.client).await;
    writer.write(&[1; 10]).await.unwrap();
    let error = writer.close().await.unwrap_err();
    let said = error.to_string();
    assert!(said.contains("minReplication") && said.contains(&store.nodes[0].addr().to_string()), "{said}");
}

#[tokio::test]
async fn nodes_that_are_well_again_are_taken_where_there_is_no_other() {
    let store = Store::new(2).await;
    store.nodes.iter().for_each(|node| node.script([Trick::HangUp]));
    writes_whole(&store, &bytes(100_000), 1 << 20).await;
    assert_eq!(store.book.count("abandonBlock"), 2);
}

#[tokio::test]
async fn a_chain_that_breaks_goes_on_without_the_node_to_blame() {
    let data = bytes(2_500_000);
    for after in [0, 1, 7, 15] {
        let store = Store::new(3).await;
        store.nodes[0].script([Trick::Blame { node: 1, after }]);
        writes_whole(&store, &data, 50_000).await;
        assert_eq!(stages(&store, 0)[..2], [Stage::PipelineSetupCreate, Stage::PipelineSetupStreamingRecovery]);
        assert_eq!(store.book.state().pipeline, [store.nodes[0].port(), store.nodes[2].port()]);
    }
}

#[tokio::test]
async fn a_lost_head_is_replaced_by_the_next_node() {
    let data = bytes(900_000);
    for after in [0, 1, 5, 13] {
        let store = Store::new(3).await;
        store.nodes[0].script([Trick::CutAfter(after)]);
        writes_whole(&store, &data, 900_000).await;
        assert_eq!(stages(&store, 1), [Stage::PipelineSetupStreamingRecovery]);
    }
}

#[tokio::test]
async fn node_after_node_may_go_while_one_is_left() {
    let store = Store::new(3).await;
    store.nodes[0].script([Trick::CutAfter(3)]);
    store.nodes[1].script([Trick::CutAfter(2)]);
    writes_whole(&store, &bytes(1_000_000), 1 << 20).await;
    assert_eq!(store.book.count("updatePipeline"), 2);
    let store = Store::new(2).await;
    store.nodes.iter().for_each(|node| node.script([Trick::CutAfter(1)]));
    let mut writer = create(&store.client).await;
    let written = async {
        writer.write(&bytes(1_000_000)).await?;
        writer.flush().await
    };
    let error = written.await.unwrap_err();
    assert!(matches!(error, Error::NoNodeLeft { .. }), "{error}");
    assert!(matches!(writer.write(&[1]).await, Err(Error::LeaseLost(_)) | Ok(())));
    assert!(writer.close().await.is_err(), "a writer that failed stays failed");
}

#[tokio::test]
async fn a_chain_that_breaks_at_the_very_end_is_only_closed() {
    let store = Store::new(3).await;
    store.nodes[0].script([Trick::CutAtEnd]);
    writes_whole(&store, &bytes(200_000), 1 << 20).await;
    assert_eq!(stages(&store, 1), [Stage::PipelineCloseRecovery]);
}

#[tokio::test]
async fn what_is_flushed_is_on_the_nodes_and_writing_goes_on() {
    let store = Store::new(3).await;
    let data = bytes(200_000);
    let mut writer = create(&store.client).await;
    let mut at = 0;
    for len in [1, 99, 412, 512, 1000, 70_000, 65_536, 3] {
        writer.write(&data[at..at + len]).await.unwrap();
        at += len;
        writer.flush().await.unwrap();
        assert_eq!(store.book.state().blocks[&1].0, data[..at], "flushed {at}");
    }
    assert_eq!(store.book.count("fsync"), 1, "the server hears of the block once");
    writer.write(&data[at..]).await.unwrap();
    writer.sync().await.unwrap();
    writer.sync().await.unwrap();
    assert_eq!(store.nodes[0].syncs.load(Ordering::Relaxed), 2);
    writer.close().await.unwrap();
    assert!(store.book.contents("/f") == data);
}

#[tokio::test]
async fn flushed_bytes_survive_a_broken_chain() {
    let store = Store::new(3).await;
    store.nodes[0].script([Trick::CutAfter(2)]);
    let data = bytes(3000);
    let mut writer = create(&store.client).await;
    for piece in data.chunks(700) {
        writer.write(piece).await.unwrap();
        writer.flush().await.unwrap();
    }
    writer.close().await.unwrap();
    assert!(store.book.contents("/f") == data);
}

#[tokio::test]
async fn appended_bytes_begin_a_block_of_their_own() {
    let store = Store::new(3).await;
    let (old, new) = (bytes(1000), bytes(5000));
    store.book.add_file("/f", &[&old]);
    let mut writer = store.client.append("/f").await.unwrap();
    assert_eq!(writer.position(), 1000);
    writer.write(&new).await.unwrap();
    writer.close().await.unwrap();
    assert!(store.book.contents("/f") == [old, new].concat());
    assert_eq!(store.book.state().files["/f"].0.len(), 2);
}

#[tokio::test]
async fn an_idle_writer_shows_that_it_lives() {
    let options = Options { timeout: Duration::from_secs(1), ..quick() };
    let store = Store::with(1, ChecksumSpec::DEFAULT, 65536, options).await;
    let mut writer = create(&store.client).await;
    writer.write(b"some").await.unwrap();
    writer.flush().await.unwrap();
    let lives = async {
        while store.nodes[0].heartbeats.load(Ordering::Relaxed) < 3 || store.book.count("renewLease") < 3 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), lives).await.expect("it says so");
    writer.write(b" more").await.unwrap();
    writer.close().await.unwrap();
    assert_eq!(store.book.contents("/f"), b"some more");
    let renewals = store.book.count("renewLease");
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert!(store.book.count("renewLease") <= renewals + 1, "nothing is open any more");
}

/// A node that never stops to say that it lives has no more time than others for its answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_node_that_floods_its_writer_is_given_up() {
    let options = Options { timeout: Duration::from_millis(300), ..quick() };
    let store = Store::with(1, ChecksumSpec::DEFAULT, 65536, options).await;
    store.nodes[0].script([Trick::Flood]);
    let mut writer = create(&store.client).await;
    writer.write(b"some").await.unwrap();
    let flushed = tokio::time::timeout(Duration::from_secs(8), writer.flush()).await;
    assert!(flushed.expect("before the flood ends").is_err());
}

#[tokio::test]
async fn completing_waits_for_the_server() {
    let store = Store::new(1).await;
    store.book.state().unready = 2;
    writes_whole(&store, &bytes(10), 10).await;
    assert_eq!(store.book.count("complete"), 3);
}

/// Flushes small pieces of `data` one after the other until the file has a second block, and each time looks whether
/// the nodes have all of them.
async fn flush_until_next_block(store: &Store, writer: &mut Writer, data: &[u8]) {
    let mut pieces = data[writer.position() as usize..].chunks(100);
    while store.book.count("addBlock") < 2 {
        writer.write(pieces.next().expect("the next block begins before that")).await.unwrap();
        writer.flush().await.unwrap();
        assert!(store.book.all("/f") == data[..writer.position() as usize], "what was flushed is there");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Writes what is left of `data`.
async fn finish(store: &Store, mut writer: Writer, data: &[u8]) {
    writer.write(&data[writer.position() as usize..]).await.unwrap();
    writer.close().await.unwrap();
    assert!(store.book.contents("/f") == data, "other bytes than those written");
}

fn widths(store: &Store, node: usize) -> Vec<usize> {
    store.nodes[node].widths.lock().unwrap().clone()
}

/// A slow writer whose chain lost one of three nodes, where there is a fourth: the next block has three again, long
/// before this one is full, and has all its nodes to the end of the file.
#[tokio::test]
async fn a_block_whose_chain_lost_a_node_ends_early_where_there_is_another() {
    let store = Store::new(4).await;
    store.book.state().width = Some(3);
    store.nodes[0].script([Trick::Blame { node: 1, after: 2 }]);
    let data = bytes(2_500_000);
    let mut writer = create(&store.client).await;
    flush_until_next_block(&store, &mut writer, &data).await;
    finish(&store, writer, &data).await;
    assert_eq!(store.book.count("addBlock"), 4, "one block was short, and the others are as long as can be");
    assert_eq!((widths(&store, 0), widths(&store, 3)), (vec![3, 2, 3, 3, 3], vec![]));
    assert_eq!(store.book.count("getAdditionalDatanode"), 1);
}

/// The same where the node itself is back, and no other is there. That it failed does not keep it out of the next
/// block.
#[tokio::test]
async fn a_node_that_is_back_gets_the_next_block() {
    let store = Store::new(3).await;
    store.nodes[0].script([Trick::Blame { node: 1, after: 2 }]);
    store.book.state().back = vec![1];
    let data = bytes(300_000);
    let mut writer = create(&store.client).await;
    flush_until_next_block(&store, &mut writer, &data).await;
    finish(&store, writer, &data).await;
    assert_eq!(widths(&store, 0), [3, 2, 3]);
}

/// No other node is to be had: the block goes on in its short chain, and the server is not asked all the time.
#[tokio::test]
async fn a_block_goes_on_with_the_nodes_that_are_left_where_there_is_no_other() {
    let store = Store::new(3).await;
    store.nodes[0].script([Trick::Blame { node: 1, after: 2 }]);
    let data = bytes(100_000);
    let mut writer = create(&store.client).await;
    let mut pieces = data.chunks(100);
    while store.book.count("getAdditionalDatanode") < 2 {
        writer.write(pieces.next().expect("it is asked by then")).await.unwrap();
        writer.flush().await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    finish(&store, writer, &data).await;
    assert_eq!(store.book.count("addBlock"), 1);
}
