//! Where the columns of a file lie: asked of a datanode that has its end (op 202), which reads it beside the data.
//!
//! ```text
//! blocks that are known ──▶ a node of the last one ──▶ found, or why there is none
//!        ▲                        │
//!        └── "not here": the block that is wanted, if it was not named; else the next node
//! ```
//!
//! Nobody needs a layout to read a file: so nodes are asked once each, and then there is none.

use super::block::connect;
use super::source::Source;
use crate::choice::Choice;
use crate::datanode::Connection;
use crate::error::Result;
use crate::located::{Located, Node};
use ::layout::{Layout, Wanted};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use wire::layouts::{ANSWER_LEN_MAX, Answer, LayoutAnswer, LayoutBlock, RangesToken, ReadLayout, Wish};
use wire::{Abilities, Status};
use xfer::fault::Fault;

/// Blocks that are named at first: those at both ends of the file hold what its layout is made of.
const NAMED_COUNT_MAX: usize = 16;
/// Requests for one layout, of all nodes: each may bring to light another block that is wanted.
const ASK_COUNT_MAX: u32 = 16;
/// How long a node may take: it waits for its turn, and then asks the file. It gives up before.
const STALL: Duration = Duration::from_secs(30);

/// What a store says of the layout of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayoutReport {
    Found {
        layout: Layout,
        /// `ip:port` of the datanode that said so.
        node: Arc<str>,
        /// Bytes that it sent.
        record_len: u64,
    },
    /// For people: the format is not known, the file is damaged, the store has no such operation, …
    None { reason: String },
}

/// By offset in the file.
type Blocks = BTreeMap<u64, Arc<Located>>;

impl Source {
    pub(super) async fn layout(&self, wanted: &Wanted) -> Result<LayoutReport> {
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
            let why_not = match self.ask_layout(node, &block, &blocks, wanted).await {
                Ok(Answer::Found(record)) => match ::layout::decode(&record) {
                    Ok(layout) => {
                        let (node, record_len) = (Arc::clone(&node.addr), record.len() as u64);
                        return Ok(LayoutReport::Found { layout, node, record_len });
                    }
                    Err(error) => error.to_string(),
                },
                Ok(Answer::Unknown(reason) | Answer::Damaged(reason) | Answer::TooLarge(reason)) => {
                    return Ok(LayoutReport::None { reason });
                }
                Ok(Answer::NotHere { offset, len }) => {
                    if self.add_blocks(&mut blocks, offset, len).await? {
                        continue;
                    }
                    format!("it does not have the bytes at {offset}")
                }
                Ok(Answer::Busy(reason)) => reason,
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

    async fn ask_layout(
        &self,
        node: &Node,
        last: &Located,
        blocks: &Blocks,
        wanted: &Wanted,
    ) -> std::result::Result<Answer, Fault> {
        let (client, request) = (&self.file.client, self.layout_request(blocks, wanted));
        let stall = STALL.min(client.options().timeout);
        // An idle connection may have been closed by the other side just now; that is no fault of the node.
        if let Some(connection) = client.store().take_idle(node) {
            match self.exchange(connection, stall, &request).await {
                Err(Fault::Broken(_)) => {}
                done => return done,
            }
        }
        let connection = connect(client, last, node, client.options().timeout).await?;
        self.exchange(connection, stall, &request).await
    }

    async fn exchange(
        &self,
        mut connection: Connection,
        stall: Duration,
        request: &[u8],
    ) -> std::result::Result<Answer, Fault> {
        let client = &self.file.client;
        connection.allow(stall);
        connection.send(request).await?;
        connection.receive_answer().await?;
        let answer: LayoutAnswer = connection.receive_message("layout", ANSWER_LEN_MAX).await?;
        connection.allow(client.options().timeout);
        client.store().put_idle(connection);
        Ok(Answer::of(answer)?)
    }

    fn layout_request(&self, blocks: &Blocks, wanted: &Wanted) -> Vec<u8> {
        let (client, file_len) = (self.file.client.session.holder.clone(), self.file.len);
        let mut request = ReadLayout { client, file_len, ..ReadLayout::default() };
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
            Wanted::Columns(columns) => Wish::Columns(columns.clone()),
            Wanted::At(offsets) => Wish::At(offsets.clone()),
        };
        request.with_wish(&wish).encode_op()
    }
}
