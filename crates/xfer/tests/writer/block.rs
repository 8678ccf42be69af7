//! How one block goes on when its stream breaks, step by step.

use super::{content, packet};
use hdfs::proto::op_write_block_proto::BlockConstructionStage as Stage;
use hdfs::proto::{DatanodeIdProto, DatanodeInfoProto, TokenProto};
use std::collections::VecDeque;
use types::{BlockId, ChecksumSpec, Generation};
use xfer::fault::Fault;
use xfer::writer::{Block, Break, Identity, Manner, Member, Rest, Shape, Step};

pub(crate) fn members(racks: &[&str]) -> Vec<Member> {
    let member = |(number, rack): (usize, &&str)| {
        let id = DatanodeIdProto { ip_addr: format!("10.0.0.{number}"), xfer_port: 9866, ..Default::default() };
        let info = DatanodeInfoProto { id, location: Some(rack.to_string()), ..Default::default() };
        Member { info, storage_type: number as i32, storage: format!("s{number}") }
    };
    racks.iter().enumerate().map(member).collect()
}

pub(crate) fn block_of(members: Vec<Member>, shape: Shape, recoveries_max: u32) -> Block {
    let spec = ChecksumSpec::DEFAULT;
    let manner = Manner { holder: "me".into(), spec, shape, packet_len: 1000, recoveries_max };
    let identity = Identity { pool: "pool".into(), block: BlockId(7), generation: Generation(1), len: 0 };
    Block::new(manner, identity, TokenProto::default(), members)
}

fn block(node_count: usize) -> Block {
    block_of(members(&["/r"; 9][..node_count]), Shape::Chain, 5)
}

/// One that streams, with so many packets of nine bytes sent, and the end behind them if `last`.
fn streaming(node_count: usize, packet_count: i64, last: bool) -> Block {
    let mut block = block(node_count);
    assert_eq!(block.next_step(), Step::Open);
    let opening = block.opening(true);
    assert_eq!((opening.request.stage(), opening.spare), (Stage::PipelineSetupCreate, true));
    block.on_opened();
    assert_eq!(block.next_step(), Step::Stream);
    for _ in 0..packet_count + i64::from(last) {
        let seqno = block.next_seqno();
        let is_last = seqno == packet_count;
        block.on_pushed(&packet(seqno, 9 * seqno as u64, if is_last { 0 } else { 9 }, is_last));
    }
    block
}

/// What is left when `acked` of those packets were acknowledged.
fn rest(acked: i64, packet_count: i64, last: bool, blamed: &[usize]) -> Rest {
    let data = (acked..packet_count).map(|seqno| packet(seqno, 9 * seqno as u64, 9, false));
    let end = last.then(|| packet(packet_count, 9 * packet_count as u64, 0, true));
    let unacked: VecDeque<_> = data.chain(end).collect();
    let broken = Break { nodes: blamed.iter().map(|node| (*node, Fault::Silent)).collect() };
    Rest { broken, unacked, acked_len: 9 * acked.min(packet_count) as u64 }
}

fn storages(block: &Block) -> Vec<&str> {
    block.members().iter().map(|member| &*member.storage).collect()
}

fn grant(block: &mut Block, generation: u64) {
    assert_eq!(block.next_step(), Step::AskGeneration);
    block.on_generation(Generation(generation), TokenProto::default());
    assert_eq!(block.next_step(), Step::Open);
}

#[test]
fn a_broken_chain_goes_on_without_its_node_under_a_new_generation() {
    let mut block = streaming(3, 4, false);
    block.on_broken(rest(1, 4, false, &[1]));
    assert_eq!(storages(&block), ["s0", "s2"]);
    grant(&mut block, 5);
    let request = block.opening(true).request;
    assert_eq!(request.stage(), Stage::PipelineSetupStreamingRecovery);
    assert_eq!((request.min_bytes_rcvd, request.max_bytes_rcvd, request.latest_generation_stamp), (9, 36, 5));
    assert_eq!(request.header.base_header.block.generation_stamp, 1, "the nodes have it under the old one");
    assert_eq!((request.targets.len(), request.pipeline_size, &*request.target_storage_ids[0]), (1, 2, "s2"));
    block.on_opened();
    let Step::UpdatePipeline(update) = block.next_step() else { panic!("the server is to be told") };
    assert_eq!((update.old.generation, update.old.len), (Generation(1), 9));
    assert_eq!((update.new.generation, update.new.len), (Generation(5), 9));
    let resend: Vec<i64> = block.on_updated().iter().map(|packet| packet.seqno()).collect();
    assert_eq!((resend, block.next_step(), block.next_seqno()), (vec![1, 2, 3], Step::Stream, 4));
    assert_eq!(block.identity(), &update.new);
}

#[test]
fn only_a_block_that_lacks_nothing_but_its_end_is_closed() {
    let mut block = streaming(2, 3, true);
    block.on_broken(rest(3, 3, true, &[0]));
    grant(&mut block, 5);
    let opening = block.opening(true);
    assert_eq!((opening.request.stage(), opening.spare), (Stage::PipelineCloseRecovery, false));
    assert_eq!((opening.request.min_bytes_rcvd, opening.request.max_bytes_rcvd), (27, 27));
    block.on_opened();
    assert!(matches!(block.next_step(), Step::UpdatePipeline(_)) && block.on_updated().is_empty());
    assert!(block.next_step() == Step::Finished && block.is_finished());

    let mut block = streaming(2, 3, true);
    block.on_broken(rest(2, 3, true, &[0]));
    grant(&mut block, 5);
    assert_eq!(block.opening(true).request.stage(), Stage::PipelineSetupStreamingRecovery);
}

#[test]
fn a_recovery_that_is_given_up_begins_anew() {
    for given_up_at in 0..3 {
        let mut block = streaming(3, 2, false);
        block.on_broken(rest(0, 2, false, &[2]));
        assert_eq!(block.next_step(), Step::AskGeneration);
        if given_up_at > 0 {
            block.on_generation(Generation(5), TokenProto::default());
            assert_eq!(block.next_step(), Step::Open);
        }
        if given_up_at > 1 {
            block.on_opened();
            assert!(matches!(block.next_step(), Step::UpdatePipeline(_)));
        }
        grant(&mut block, 6);
        assert_eq!(block.opening(true).request.latest_generation_stamp, 6);
        block.on_opened();
        assert!(matches!(block.next_step(), Step::UpdatePipeline(_)));
        assert_eq!(block.on_updated().len(), 2);
        assert_eq!(storages(&block), ["s0", "s1"], "nobody was dropped for it");
    }
}

#[test]
fn each_attempt_takes_a_node_away_until_none_is_left() {
    let mut block = streaming(3, 1, false);
    block.on_broken(rest(0, 1, false, &[1]));
    grant(&mut block, 5);
    assert!(block.opening(true).spare);
    block.on_open_failed(Break::of(0, Fault::NoConnection("refused".into())));
    grant(&mut block, 6);
    assert!(!block.opening(true).spare, "the last node has the only bytes");
    block.on_open_failed(Break::of(0, Fault::Silent));
    assert_eq!((block.next_step(), block.next_step()), (Step::Failed, Step::Failed));
    let told: Vec<String> = block.faults().iter().map(|(node, fault)| format!("{} {fault}", node.addr())).collect();
    assert_eq!(
        told,
        ["10.0.0.1:9866 no answer in time", "10.0.0.0:9866 no connection: refused", "10.0.0.2:9866 no answer in time"]
    );
}

#[test]
fn a_new_block_is_not_tried_twice() {
    let mut block = block(3);
    assert_eq!(block.next_step(), Step::Open);
    let _ = block.opening(false);
    block.on_open_failed(Break::of(1, Fault::Silent));
    assert_eq!(block.next_step(), Step::Failed);
    assert_eq!(block.faults()[0].0.storage, "s1");
    assert_eq!(block_of(Vec::new(), Shape::Chain, 5).next_step(), Step::Failed);
}

#[test]
fn the_same_packet_may_be_stuck_so_often() {
    let recover = |block: &mut Block, acked: i64| {
        block.on_broken(rest(acked, 3, false, &[]));
        if block.next_step() == Step::Failed {
            return false;
        }
        grant(block, 5);
        block.on_opened();
        let _ = (block.next_step(), block.on_updated());
        true
    };
    let mut block = streaming(3, 3, false);
    assert!((0..5).all(|_| recover(&mut block, 0)));
    assert!(!recover(&mut block, 0), "once more than five times");
    let mut block = streaming(3, 3, false);
    assert!((0..5).all(|_| recover(&mut block, 0)) && (0..5).all(|_| recover(&mut block, 1)));
    let mut log = block_of(members(&["/r"; 3]), Shape::Star { leader: None }, 0);
    log.on_opened();
    assert!(!recover(&mut log, 0), "a writer that ends with the first fault");
}

#[test]
fn several_nodes_may_be_dropped_at_once() {
    let mut block = streaming(5, 1, false);
    block.on_broken(rest(0, 1, false, &[1, 2, 4]));
    assert_eq!(storages(&block), ["s0", "s3"]);
}

#[test]
fn routing_tables_and_the_order_of_the_nodes_belong_together() {
    let racks = ["/a", "/b", "/a", "/b"];
    let open = |shape, ours| {
        let mut block = block_of(members(&racks), shape, 5);
        let opening = block.opening(ours);
        let nodes = opening.nodes.iter().map(|node| node[7..8].to_owned()).collect::<String>();
        (nodes, opening.request.stream.map(|stream| stream.parents))
    };
    assert_eq!(open(Shape::Chain, true), ("0123".into(), Some(vec![])));
    assert_eq!(open(Shape::Tree, true), ("0213".into(), Some(vec![0, 0, 2])));
    assert_eq!(open(Shape::Tree, false), ("0123".into(), None), "nodes of HDFS know chains alone");
    assert_eq!(open(Shape::Star { leader: None }, true), ("0123".into(), Some(vec![0, 0, 0])));
    let leader = Some("10.0.0.2".into());
    assert_eq!(open(Shape::Star { leader }, true), ("2013".into(), Some(vec![0, 0, 0])));
}

#[test]
#[should_panic(expected = "nobody saw that there is room")]
fn a_packet_for_a_broken_stream_is_our_own_mistake() {
    let mut block = streaming(2, 1, false);
    block.on_broken(rest(0, 1, false, &[0]));
    block.on_pushed(&packet(1, 9, 1, false));
}

#[test]
fn packets_of_these_tests_can_be_told_apart() {
    assert!((0..99).any(|offset| content(offset) != content(offset + 9)));
}
