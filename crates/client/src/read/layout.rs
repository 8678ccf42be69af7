//! Where the columns of a file lie: asked of a datanode that has its end (op 202), which reads it beside the data.
//!
//! ```text
//! blocks that are known ──▶ a node of the last one ──▶ found, or why there is none
//!        ▲                        │
//!        └── "not here": the block that is wanted, if it was not named; else the next node
//! ```
//!
//! Nobody needs a layout to read a file: so nodes are asked once each, and then there is none.

use super::source::Source;
use crate::choice::Choice;
use crate::datanode::Connection;
use crate::error::Result;
use crate::located::{Located, Node};
use ::layout::{Layout, Wanted};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use wire::layouts::{ANSWER_LEN_MAX, Answer, LayoutAnswer, LayoutBlock, RangesToken, ReadLayout, WINDOW_COUNT_MAX};
use wire::layouts::{WINDOW_LEN_MAX, WISH_COUNT_MAX, Wish};
use wire::ranges::Asked;
use wire::{Abilities, Status};
use xfer::fault::Fault;
use xfer::ranges::{Dests, Event};

/// Blocks that are named at first: those at both ends of the file hold what its layout is made of.
pub(super) const NAMED_COUNT_MAX: usize = 16;
/// Requests for one layout, of all nodes: each may bring to light another block that is wanted.
const ASK_COUNT_MAX: u32 = 16;
/// How long a node may take: it waits for its turn, and then asks the file. It gives up before.
pub(super) const STALL: Duration = Duration::from_secs(40);

/// What a store says of the layout of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayoutReport {
    Found {
        layout: Layout,
        /// `ip:port` of the datanode that said so.
        node: Arc<str>,
        /// Bytes that it sent.
        record_len: u64,
        /// Bytes of the file that came with it, each with its offset. They were verified.
        window: Vec<(u64, Vec<u8>)>,
    },
    /// For people: the format is not known, the file is damaged, the store has no such operation, …
    None { reason: String },
}

/// The first bytes of the wanted columns that are to come with a layout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayoutWindow {
    /// The first entry that is wanted.
    pub first: u64,
    /// So many bytes at most, up to [`LayoutWindow::LEN_MAX`]; 0: none.
    pub len_max: u64,
}

impl LayoutWindow {
    pub const LEN_MAX: u64 = WINDOW_LEN_MAX;
}

/// What a node said.
enum Said {
    Found {
        layout: Layout,
        record_len: u64,
        window: Vec<(u64, Vec<u8>)>,
    },
    /// Anything else.
    Answer(Answer),
}

/// Bytes of each range.
struct Places(Vec<Vec<u8>>);

impl Dests for Places {
    fn dest(&mut self, range: u32) -> &mut [u8] {
        self.0.get_mut(range as usize).map(Vec::as_mut_slice).unwrap_or_default()
    }
}

/// Bytes, each with their offset in the file, in the order of the file.
pub(crate) type Pieces = Vec<(u64, Vec<u8>)>;

/// Bytes of blocks, by the places of these in a request.
pub(super) type Ranges = Vec<(usize, Asked)>;

/// By offset in the file.
type Blocks = BTreeMap<u64, Arc<Located>>;

impl Source {
    pub(super) async fn layout(&self, wanted: &Wanted, window: LayoutWindow) -> Result<LayoutReport> {
        let none = |reason: &str| Ok(LayoutReport::None { reason: reason.to_owned() });
        let Some(last_byte) = self.file.len.checked_sub(1) else { return none("the file is empty") };
        if !self.file.client.defaults().await?.abilities.has(Abilities::LAYOUTS) {
            return none("this store does not read layouts");
        }
        let last = self.file.block_at(last_byte).await?.offset;
        let first = self.file.block_at(0).await?;
        let mut blocks = self.file.ends(NAMED_COUNT_MAX).await;
        let (mut attempt, mut reasons) = (self.attempt(), Vec::new());
        for _ in 0..ASK_COUNT_MAX {
            let Some(block) = blocks.get(&last).map(Arc::clone) else { break };
            // Best is who has both ends.
            let mut nodes = block.nodes.to_vec();
            nodes.sort_by_key(|node| !first.nodes.iter().any(|other| other.addr == node.addr));
            let Some(Choice { node, .. }) = self.choose_of(&nodes, attempt.tried()) else { break };
            let request = self.layout_request(&blocks, wanted, window);
            let why_not = match self.ask_layout(node, &block, &request).await {
                Ok(Said::Found { layout, record_len, window }) => {
                    return Ok(LayoutReport::Found { layout, node: Arc::clone(&node.addr), record_len, window });
                }
                Ok(Said::Answer(Answer::Unknown(reason) | Answer::Damaged(reason) | Answer::TooLarge(reason))) => {
                    return Ok(LayoutReport::None { reason });
                }
                Ok(Said::Answer(Answer::NotHere { offset, len })) => {
                    if self.add_blocks(&mut blocks, offset, len).await? {
                        continue;
                    }
                    format!("it does not have the bytes at {offset}")
                }
                Ok(Said::Answer(Answer::Busy(reason))) => reason,
                Ok(Said::Answer(Answer::Found(_))) => "it sent a layout that is none".to_owned(),
                Err(fault) => {
                    // As a read: a new token for this block, the next node, and those that failed last from now on.
                    let wants_tokens = fault.is_token_refusal();
                    reasons.push(format!("{}: {fault}", node.addr));
                    self.on_fault(&block, node, &mut attempt, fault).await?;
                    if wants_tokens {
                        self.with_new_tokens(&mut blocks, last).await?;
                    }
                    continue;
                }
            };
            tracing::debug!(path = %self.file.path, node = %node.addr, why_not, "no layout from this node");
            reasons.push(format!("{}: {why_not}", node.addr));
            let refused = Fault::Refused { status: Status::ERROR, message: why_not };
            attempt.on_fault(&node.addr, refused);
        }
        let reason = if reasons.is_empty() { "no node has its end".to_owned() } else { reasons.join("; ") };
        Ok(LayoutReport::None { reason })
    }

    /// Adds those that hold these bytes. False if all of them were among them.
    async fn add_blocks(&self, blocks: &mut Blocks, offset: u64, len: u64) -> Result<bool> {
        let (mut at, end) = (offset, offset.saturating_add(len).min(self.file.len));
        let mut is_more = false;
        while at < end && blocks.len() < wire::layouts::BLOCK_COUNT_MAX {
            let block = self.file.block_at(at).await?;
            at = block.offset + block.len;
            is_more |= blocks.insert(block.offset, block).is_none();
        }
        Ok(is_more)
    }

    /// That of the last block was asked for.
    async fn with_new_tokens(&self, blocks: &mut Blocks, last: u64) -> Result<()> {
        for (offset, block) in blocks {
            if *offset != last {
                self.file.refetch(block).await?;
            }
            *block = self.file.block_at(*offset).await?;
        }
        Ok(())
    }

    async fn ask_layout(&self, node: &Node, last: &Located, request: &ReadLayout) -> std::result::Result<Said, Fault> {
        let client = &self.file.client;
        let stall = STALL.min(client.options().timeout);
        let exchange = |connection| self.exchange(connection, stall, request);
        client.on_connection(last, node, client.options().timeout, exchange).await
    }

    async fn exchange(
        &self,
        mut connection: Connection,
        stall: Duration,
        request: &ReadLayout,
    ) -> std::result::Result<Said, Fault> {
        let client = &self.file.client;
        connection.allow(stall);
        connection.send(&request.encode_op()).await?;
        connection.receive_answer().await?;
        let answer: LayoutAnswer = connection.receive_message("layout", ANSWER_LEN_MAX).await?;
        connection.allow(client.options().timeout);
        let said = match Answer::of(answer)? {
            Answer::Found(record) => {
                let layout = ::layout::decode(&record).map_err(|error| Fault::Protocol(error.to_string()))?;
                if !is_within(&layout, self.file.len) {
                    return Err(Fault::Protocol("a piece of its layout lies behind the file".to_owned()));
                }
                let (record_len, mut window) = (record.len() as u64, Vec::new());
                if request.window_len > 0 {
                    let pieces = layout.window(request.window_first, request.window_len, WINDOW_COUNT_MAX);
                    let pieces = pieces.iter().map(|piece| (piece.offset, piece.len));
                    let ranges: Ranges = request.in_blocks(pieces).collect();
                    if let Err(fault) = receive_window(&mut connection, request, &ranges, &mut window).await {
                        // What is missing is read when it is asked for.
                        tracing::debug!(path = %self.file.path, %fault, "the window of a layout did not come");
                        return Ok(Said::Found { layout, record_len, window });
                    }
                }
                Said::Found { layout, record_len, window }
            }
            answer => Said::Answer(answer),
        };
        client.store().put_idle(connection);
        Ok(said)
    }

    pub(super) fn layout_request(&self, blocks: &Blocks, wanted: &Wanted, window: LayoutWindow) -> ReadLayout {
        let (client, file_len) = (self.file.client.session.holder.clone(), self.file.len);
        let (window_first, window_len) = (window.first, window.len_max.min(WINDOW_LEN_MAX));
        let mut request = ReadLayout { client, file_len, window_first, window_len, ..ReadLayout::default() };
        for (offset, block) in blocks {
            let Located { identity, token, len, .. } = &**block;
            request.pool.clone_from(&identity.pool);
            let own = RangesToken { identifier: token.identifier.clone(), password: token.password.clone() };
            if request.tokens.last() != Some(&own) {
                request.tokens.push(own);
            }
            request.blocks.push(LayoutBlock {
                offset: *offset,
                block: identity.block.0,
                generation: identity.generation.0,
                len: *len,
                token: request.tokens.len() as u32 - 1,
            });
        }
        let wish = match wanted {
            Wanted::All => Wish::All,
            Wanted::Columns(columns) if columns.len() <= WISH_COUNT_MAX => Wish::Columns(columns.clone()),
            Wanted::At(offsets) if offsets.len() <= WISH_COUNT_MAX => Wish::At(offsets.clone()),
            // More than a request may name: all of them have some more.
            Wanted::Columns(_) | Wanted::At(_) => Wish::All,
        };
        request.with_wish(&wish)
    }
}

/// Whether all of it lies in a file of this length.
pub(super) fn is_within(layout: &Layout, file_len: u64) -> bool {
    let mut pieces = layout.tables.iter().flat_map(|table| &table.columns).flat_map(|column| &column.pieces);
    pieces.all(|piece| piece.offset.checked_add(piece.len.into()).is_some_and(|end| end <= file_len))
}

/// Takes the answer for these ranges off a connection; those that are whole go into `window`, also before a fault.
pub(super) async fn receive_window(
    connection: &mut Connection,
    request: &ReadLayout,
    ranges: &[(usize, Asked)],
    window: &mut Vec<(u64, Vec<u8>)>,
) -> std::result::Result<(), Fault> {
    let lens = || ranges.iter().map(|(_, asked)| asked.len);
    let mut places = Places(lens().map(|len| vec![0; len as usize]).collect());
    let mut receiver = connection.ranges_receiver(lens());
    let mut take = |places: &mut Places, range: u32| {
        let whole = ranges.get(range as usize).zip(places.0.get_mut(range as usize));
        if let Some(((place, asked), bytes)) = whole
            && let Some(block) = request.blocks.get(*place)
        {
            window.push((block.offset + asked.from, std::mem::take(bytes)));
        }
    };
    while !receiver.is_answered()? {
        connection.bring(&mut receiver, &mut places).await?;
    }
    loop {
        match receiver.poll(&mut places)? {
            Event::Nothing => _ = connection.bring(&mut receiver, &mut places).await?,
            Event::Whole(range) => take(&mut places, range),
            // Who reads there asks another replica, and tells of a damaged one.
            Event::Corrupt { .. } | Event::Refused { .. } => {}
            Event::End => break,
        }
    }
    connection.put_back(receiver.into_front());
    Ok(())
}
