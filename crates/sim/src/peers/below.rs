//! A scripted node below a relay of ours: what the writer above is told of it, and what becomes of the block.

use super::line::{Heard, Line, Missing, SOON, answer};
use super::writes::StockWriter;
use super::{SCRIPTED, Stage, Told, must};
use crate::platter::SPEC;
use hdfs::proto;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use types::BlockId;
use wire::{Abilities, PipelineAck, Status};

const CHUNK: usize = SPEC.chunk_len as usize;
/// Between two keepalives of a node of ours, with room.
const KEEPALIVE_WITHIN: Duration = Duration::from_millis(700);
/// Until a node counts as lost that gives keepalives and falls silent, with room.
const STALLED_WITHIN: Duration = Duration::from_secs(4);

/// What the node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Acknowledges all, as HDFS's nodes do.
    Well,
    /// The same, seconds later, and sends no keepalives of life.
    Slow,
    /// Refuses to join.
    Refuses,
    /// Closes the connection in place of an answer.
    Leaves,
    /// Sends keepalives, and is silent from the second packet on.
    Stalls,
    /// Closes the connection when nothing is under way; then the last packet comes.
    ClosesIdle,
    /// Closes it in place of the second ack.
    Closes,
    /// Its disk does not take the second packet.
    Fails,
    /// It finds bad bytes in the second packet.
    FindsBadSums,
    /// Acknowledges what was not sent, in more words than there are nodes, twice, or in no ack at all.
    WrongSeqno,
    TooMany,
    TooFew,
    Twice,
    Garbage,
}

const WAYS: &[Way] = &[
    Way::Well,
    Way::Slow,
    Way::Refuses,
    Way::Leaves,
    Way::Stalls,
    Way::ClosesIdle,
    Way::Closes,
    Way::Fails,
    Way::FindsBadSums,
    Way::WrongSeqno,
    Way::TooMany,
    Way::TooFew,
    Way::Twice,
    Way::Garbage,
];

/// The block is on two nodes: one of ours, and the script.
pub(super) async fn any(stage: Rc<Stage>) -> Told {
    let way = stage.chance(WAYS);
    stage.sim.say(|| format!("the node below: {way:?}"));
    let released = Rc::new(Cell::new(0));
    let pause = stage.sim.between(Duration::from_secs(1), Duration::from_secs(8));
    let shared = Rc::clone(&released);
    stage.stand_in(SCRIPTED, move |line| node(line, way, pause, Rc::clone(&shared)));
    let nodes = [0, SCRIPTED];
    if matches!(way, Way::Refuses | Way::Leaves) {
        let mut writer = StockWriter::ask(&stage, &nodes, stage.sim.one_in(2)).await?;
        let answer = writer.line.hear_answer().await?;
        let bad_link = format!("10.0.0.{SCRIPTED}:9866");
        must(answer.status != 0 && answer.first_bad_link.as_ref() == Some(&bad_link), || format!("told: {answer:?}"))?;
        return must(stage.replica(0, writer.block).is_none(), || "a block that was not begun is there".to_owned());
    }
    let mut writer = StockWriter::begin(&stage, &nodes, way == Way::Slow || stage.sim.one_in(2)).await?;
    let first = writer.next(CHUNK + stage.sim.below(2 * CHUNK), false);
    writer.line.say(&first).await;
    if way == Way::Slow {
        return slow(&stage, writer, &released).await;
    }
    writer.drain(SOON).await?;
    if way == Way::ClosesIdle {
        stage.sim.sleep(Duration::from_secs(1)).await;
        let last = writer.last();
        writer.line.say(&last).await;
    } else {
        let mut second = writer.next(1 + stage.sim.below(2 * CHUNK), false);
        if way == Way::Well {
            second.extend_from_slice(&writer.last());
        }
        writer.line.say(&second).await;
    }
    let (block, sent) = (writer.block, writer.sent);
    match way {
        Way::Well => {
            writer.drain(SOON).await?;
            return stage.is_whole(0, block, writer.tag, sent).await;
        }
        // Whoever sent it on looks like the bad one, so it says nothing.
        Way::FindsBadSums => writer.line.hear_end().await?,
        _ => {
            let ack = writer.ack(STALLED_WITHIN).await?;
            let told = [Status::SUCCESS, Status::ERROR];
            must(ack.seqno == 1 && ack.replies == told, || format!("{way:?}: the writer is told {ack:?}"))?;
        }
    }
    drop(writer);
    stage.sim.sleep(Duration::from_secs(4)).await;
    stage.is_open_or_gone(0, block, sent)
}

/// The writer is told that the nodes live, and readers see nothing that is not acknowledged.
async fn slow(stage: &Stage, mut writer: StockWriter, released: &Cell<usize>) -> Told {
    let mut is_last_sent = false;
    loop {
        let ack = writer.line.hear_ack(KEEPALIVE_WITHIN).await;
        let shown = stage.replica(0, writer.block).map_or(0, |info| info.visible);
        if !is_last_sent {
            must(shown <= released.get(), || {
                format!("readers see {shown} bytes, and the node below has acknowledged {}", released.get())
            })?;
        }
        let ack = ack.map_err(|missing| format!("no keepalive in time: {missing:?}"))?;
        match (ack.seqno, is_last_sent) {
            (PipelineAck::HEARTBEAT, _) => {}
            (0, false) => {
                let last = writer.last();
                writer.line.say(&last).await;
                is_last_sent = true;
            }
            (1, true) => return stage.is_whole(0, writer.block, writer.tag, writer.sent).await,
            _ => return Err(format!("an ack of nothing: {ack:?}")),
        }
    }
}

/// The node: one connection.
async fn node(mut line: Line, way: Way, pause: Duration, released: Rc<Cell<usize>>) -> Told {
    let op: proto::OpWriteBlockProto = line.hear_op().await?;
    let tag = super::tag_of(BlockId(op.header.base_header.block.block_id));
    match way {
        Way::Refuses => {
            line.say_message(&answer(Status::ERROR)).await;
            return Ok(());
        }
        Way::Leaves => return Ok(()),
        _ => {}
    }
    let abilities = (way == Way::Stalls).then_some(Abilities::OF_STREAM.bits());
    line.say_message(&proto::BlockOpResponseProto { abilities, message: None, ..answer(Status::SUCCESS) }).await;
    loop {
        let heard = match line.hear_packet(Duration::from_secs(70)).await {
            Ok(heard) => heard,
            Err(Missing::End) => return Ok(()),
            Err(missing) => return Err(missing.into()),
        };
        heard.verify(tag)?;
        let Heard { header, data, .. } = heard;
        let seqno = header.seqno;
        let ok = [Status::SUCCESS];
        match way {
            Way::Slow => {
                line.sim.sleep(pause).await;
                released.set(released.get().max(header.offset as usize + data.len()));
                line.say_ack(seqno, &ok).await;
            }
            _ if seqno == 0 || way == Way::Well => {
                line.say_ack(seqno, &ok).await;
                if way == Way::ClosesIdle {
                    return Ok(());
                }
            }
            Way::Stalls => {
                line.drop_all(Duration::from_secs(200)).await;
                return Ok(());
            }
            Way::Fails => _ = line.say_ack(seqno, &[Status::ERROR]).await,
            Way::FindsBadSums => _ = line.say_ack(seqno, &[Status::ERROR_CHECKSUM]).await,
            Way::WrongSeqno => _ = line.say_ack(seqno + 1, &ok).await,
            Way::TooMany => _ = line.say_ack(seqno, &[Status::SUCCESS; 2]).await,
            Way::TooFew => _ = line.say_ack(seqno, &[]).await,
            Way::Twice => _ = line.say_ack(seqno - 1, &ok).await,
            Way::Garbage => _ = line.say(&[5, 0xff, 0xff, 0xff, 0xff, 0xff]).await,
            _ => return Ok(()),
        }
    }
}
