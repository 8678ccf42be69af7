//! A layout, and the first bytes of columns that earlier runs have read, in one flight (op 202, in parts).
//!
//! ```text
//!            ┌─ part 0 ─▶ record ──▶ which bytes come by which part ──┐
//!   request ─┼─ part 1 ─▶ (waits in the socket) ◀─────────────────────┼─▶ bytes, verified
//!            └─ part n ─▶ (waits in the socket) ◀─────────────────────┘
//! ```
//!
//! A new connection brings ten segments in its first round trip, so a window of megabytes comes over many. All of them
//! carry the same request, each for its part, behind its share of what is wanted first ([`super::opening`]). One node
//! is asked, once: what does not come is read as it is asked for.

use super::layout::{LayoutWindow, NAMED_COUNT_MAX, Pieces, Ranges, STALL, is_within, receive_window};
use super::opening::{Opening, OpeningShare};
use super::source::Source;
use crate::choice::Choice;
use crate::datanode::Connection;
use crate::error::{Error, Result};
use crate::layout_memory::LayoutRoom;
use crate::located::{Located, Node};
use crate::scope::Task;
use ::layout::{Layout, Wanted};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use wire::Abilities;
use wire::layouts::{
    ANSWER_LEN_MAX, Answer, LayoutAnswer, PART_COUNT_MAX, RECORD_LEN_MAX, ReadLayout, WINDOW_COUNT_MAX,
};
use wire::ranges::Asked;
use xfer::fault::Fault;

/// What a store said, and what is on its way.
#[derive(Debug)]
pub(crate) struct FirstWindow {
    /// All columns by their names, with the pieces of those that were wanted.
    pub(crate) layout: Layout,
    /// Memory that was taken to make it.
    pub(crate) room: LayoutRoom,
    pub(crate) parts: Vec<ComingPart>,
}

/// Bytes of the file that come over one connection.
#[derive(Debug)]
pub(crate) struct ComingPart {
    /// Offset and length, in the order of the file.
    pub(crate) spans: Vec<(u64, u64)>,
    pub(crate) bytes: Task<Result<Pieces>>,
}

impl Source {
    /// `len` bytes of these columns, from their beginning on. `opening`: what comes before them.
    pub(super) async fn first_window(
        self: Arc<Self>,
        columns: Vec<(u32, u32)>,
        len: u64,
        opening: Opening,
    ) -> Result<Option<FirstWindow>> {
        let Some(last_byte) = self.file.len.checked_sub(1) else { return Ok(None) };
        if !self.file.client.defaults().await?.abilities.has(Abilities::LAYOUTS) {
            return Ok(None);
        }
        let last = self.file.block_at(last_byte).await?;
        let first = self.file.block_at(0).await?;
        let blocks = self.file.ends(NAMED_COUNT_MAX).await;
        // Best is who has both ends, and of those to whom there are connections.
        let mut nodes = self.in_order(&last, None);
        nodes.sort_by_key(|node| !first.nodes.iter().any(|other| other.addr == node.addr));
        let Some(Choice { node, has_other }) = self.choose_of(&nodes, &Default::default()) else { return Ok(None) };
        let stall = self.stall(has_other);
        let window = LayoutWindow { first: 0, len_max: len };
        let mut request = self.layout_request(&blocks, &Wanted::Columns(columns), window);
        request.part_count = self.part_count(&node.addr, request.window_len.saturating_add(opening.len()));
        let parts = (1..request.part_count).map(|part| {
            let (sender, ranges) = oneshot::channel();
            let request = ReadLayout { part, ..request.clone() };
            let share = opening.share(&request);
            let (source, node, last) = (Arc::clone(&self), node.clone(), Arc::clone(&last));
            let task = self.file.client.spawn("part of a window", async move {
                let opened = source.open_part(&node, &last, &request, &share, stall).await;
                // Who waits for it does not wait for the window.
                drop(share);
                let (connection, answer) = opened.map_err(|fault| lost(&fault))?;
                let Answer::Found(_) = answer else {
                    source.file.client.store().put_idle(connection);
                    return Err(Error::NotDone("a part of a window was refused"));
                };
                let ranges: Ranges = ranges.await.map_err(|_| Error::NotDone("there is no layout"))?;
                source.take_part(connection, &request, &ranges).await
            });
            (sender, task)
        });
        let parts: Vec<_> = parts.collect();
        let share = opening.share(&request);
        // From now on the shares alone hold it: it ends with them.
        drop(opening);
        let opened = self.open_part(node, &last, &request, &share, stall).await;
        drop(share);
        let (connection, record) = match opened {
            Ok((connection, Answer::Found(record))) => (connection, record),
            no_window => {
                tracing::debug!(path = %self.file.path, node = %node.addr, ?no_window, "no first window");
                if let Ok((connection, _)) = no_window {
                    self.file.client.store().put_idle(connection);
                }
                // What comes before it comes all the same.
                for (sender, bytes) in parts {
                    drop(sender);
                    let _nothing = bytes.await;
                }
                return Ok(None);
            }
        };
        // The node may have made it up, and a stranger may have written the file.
        let room = self.file.client.store().layout_room();
        let of_decoder = Box::new(room.clone());
        let decoded = io::task::blocking(move || ::layout::decode_in_room(&record, of_decoder)).await;
        let Some(layout) = decoded.ok().filter(|layout| is_within(layout, self.file.len)) else { return Ok(None) };
        let pieces = layout.window(request.window_first, request.window_len, WINDOW_COUNT_MAX);
        let all: Ranges = request.in_blocks(pieces.iter().map(|piece| (piece.offset, piece.len))).collect();
        let ranges_of = |part| ReadLayout { part, ..request.clone() }.part_of(all.iter().copied());
        let spans_of = |ranges: &Ranges| spans(&request, ranges);
        let ranges = ranges_of(0);
        let first = {
            let (source, request, ranges) = (Arc::clone(&self), request.clone(), ranges.clone());
            self.file
                .client
                .spawn("part of a window", async move { source.take_part(connection, &request, &ranges).await })
        };
        let mut coming = vec![ComingPart { spans: spans_of(&ranges), bytes: first }];
        for ((sender, bytes), part) in parts.into_iter().zip(1..) {
            let ranges = ranges_of(part);
            let spans = spans_of(&ranges);
            // A task that is gone has failed, as its part will.
            let _ = sender.send(ranges);
            coming.push(ComingPart { spans, bytes });
        }
        Ok(Some(FirstWindow { layout, room, parts: coming }))
    }

    /// Connections for a window and what comes before it.
    fn part_count(&self, addr: &str, len: u64) -> u32 {
        if !self.is_far() {
            return 1;
        }
        let (store, count) = (self.file.client.store(), self.shares_of(len));
        // The next run of it needs as many.
        store.note_reached(addr, usize::try_from(count).unwrap_or(usize::MAX));
        let idle = store.idle_count(addr) as u64;
        // New ones beside them would be waited for.
        let count = if 2 * idle >= count { count.min(idle) } else { count };
        u32::try_from(count).unwrap_or(u32::MAX).clamp(1, PART_COUNT_MAX)
    }

    /// Asks a node for one part, and takes what comes before its bytes.
    async fn open_part(
        &self,
        node: &Node,
        last: &Located,
        request: &ReadLayout,
        share: &OpeningShare,
        stall: Duration,
    ) -> std::result::Result<(Connection, Answer), Fault> {
        let client = &self.file.client;
        let begin = |connection| begin(connection, request, share, stall);
        // A program waits for the opening as for any read; for a window nobody does yet.
        let limit = if share.is_expected() { stall } else { client.options().timeout };
        client.on_connection(last, node, limit, begin).await
    }

    async fn take_part(&self, mut connection: Connection, request: &ReadLayout, ranges: &Ranges) -> Result<Pieces> {
        let (client, mut pieces) = (&self.file.client, Vec::new());
        connection.allow(client.options().timeout);
        receive_window(&mut connection, request, ranges, &mut pieces).await.map_err(|fault| lost(&fault))?;
        client.store().put_idle(connection);
        pieces.sort_unstable_by_key(|(offset, _)| *offset);
        Ok(pieces)
    }
}

async fn begin(
    mut connection: Connection,
    request: &ReadLayout,
    share: &OpeningShare,
    stall: Duration,
) -> std::result::Result<(Connection, Answer), Fault> {
    connection.allow(stall);
    // Both at once: the second is served as soon as the first is.
    connection.send(&[share.op(request), request.encode_op()].concat()).await?;
    share.take(&mut connection, request).await?;
    connection.allow(STALL);
    connection.receive_answer().await?;
    // The record comes with the first part.
    let len_max = if request.part == 0 { ANSWER_LEN_MAX } else { ANSWER_LEN_MAX - RECORD_LEN_MAX };
    let answer: LayoutAnswer = connection.receive_message("layout", len_max).await?;
    Ok((connection, Answer::of(answer)?))
}

fn spans(request: &ReadLayout, ranges: &Ranges) -> Vec<(u64, u64)> {
    let span = |(place, asked): &(usize, Asked)| {
        let block = request.blocks.get(*place)?;
        Some((block.offset.saturating_add(asked.from), asked.len.into()))
    };
    ranges.iter().filter_map(span).collect()
}

/// A part is a guess: it is read again when somebody wants it.
fn lost(fault: &Fault) -> Error {
    tracing::debug!(%fault, "a part of a window did not come");
    Error::NotDone("a part of a window did not come")
}
