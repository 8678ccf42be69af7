//! Asks a file for its layout: bytes of blocks that are here, and of others those that the nodes have which the metadata
//! server names.

use super::entry::{Entry, Outcome, Touched};
use super::part;
use crate::data_service::DataService;
use crate::fetch::{CopyError, Fetcher};
use crate::metad::Leader;
use crate::read::{if_it_serves, stored};
use bytes::Bytes;
use container::{Reader, ReplicaError};
use layout::{Answer as Next, Inquiry, LayoutError, Limits, Want};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;
use types::{FileId, InodeId};
use wire::Status;
use wire::layouts::{Answer, LayoutBlock, RECORD_LEN_MAX, ReadLayout};
use wire::node::{BlockToken, CopyOrder};
use wire::ranges::Asked;
use xfer::answer::Refusal;
use xfer::ranges::has_all;
use xfer::read::Range;

/// A quarter of the usual limits: a datanode has other work. What is asked for at once is taken from the node's
/// `memory`; what is made of it has no other bound than these.
const LIMITS: Limits = Limits {
    asked_len_max: 32 << 20,
    question_count_max: 10_000,
    object_len_max: 24 << 20,
    objects_len_max: 64 << 20,
    piece_count_max: 1 << 20,
    column_count_max: 64 << 10,
    names_len_max: 8 << 20,
};

/// Why nothing is known of the file after all.
pub(super) enum Ended {
    /// By this node's means, at this moment.
    Answer(Answer),
    /// Who asks may not read it.
    Refused(Refusal),
}

/// A file that is being asked.
pub(super) struct Asking<'a> {
    pub(super) service: &'a DataService,
    pub(super) leader: Option<&'a Arc<Leader>>,
    pub(super) request: &'a ReadLayout,
    /// One of the places for those. It is held until a thread has ended, also if nobody waits for it any more.
    pub(super) place: Arc<OwnedSemaphorePermit>,
    pub(super) touched: Vec<Touched>,
    /// Blocks that it was begun to read, as the request names them.
    pub(super) begun: Vec<LayoutBlock>,
    pub(super) elsewhere: Elsewhere,
}

/// What was learned of other nodes.
#[derive(Debug, Default)]
pub(super) struct Elsewhere {
    /// Of blocks, by their places, who has them.
    sources: HashMap<usize, Vec<String>>,
    read_count: usize,
}

/// What a file said.
pub(super) struct Said {
    pub(super) entry: Entry,
    /// Whether others may be given it: whose file it is was held against the asker's token, by the last block's replica.
    pub(super) is_sure: bool,
}

impl Asking<'_> {
    /// Whose file it is, is asked first: its last block is what it is known by.
    pub(super) async fn run(&mut self) -> Result<Said, Ended> {
        let is_sure = self.has_last().await?;
        let entry = self.ask().await?;
        Ok(Said { entry, is_sure })
    }

    /// Whether the file's last block is here, and as long as it is said to be.
    async fn has_last(&mut self) -> Result<bool, Ended> {
        let Some((place, block)) = self.request.blocks.iter().copied().enumerate().next_back() else {
            return Ok(false);
        };
        self.begin(&block);
        let named = self.service.admission.layout(self.request, place).map_err(Ended::Refused)?;
        let opened = if_it_serves(self.service, named, move |reader| {
            // Of a file that was cut, less of it counts than there is.
            let is_it = reader.identity().generation.0 == block.generation && block.len <= reader.len();
            Ok(Ok(is_it.then_some(reader.identity().file)))
        });
        match opened.await {
            Ok(Ok(Some(file))) => {
                self.touch(&block, file);
                Ok(true)
            }
            Err(refused) if refused.status == Status::ERROR_ACCESS_TOKEN => Err(Ended::Refused(refused)),
            _ => Ok(false),
        }
    }

    async fn ask(&mut self) -> Result<Entry, Ended> {
        let mut asked = layout::begin_within(self.request.file_len, LIMITS).map(Next::Ask);
        loop {
            let failed = match asked {
                Ok(Next::Ask(inquiry)) => {
                    asked = self.go_on(inquiry).await?;
                    continue;
                }
                Ok(Next::Done(layout)) => {
                    let encoded =
                        self.apart(move || layout::encode(&layout).map(|record| (record, part::memory_len(&layout))));
                    match encoded.await {
                        Some(Ok((record, memory_len))) if record.len() <= RECORD_LEN_MAX => {
                            return Ok(Entry { memory_len, ..self.entry(Outcome::Found, record.into()) });
                        }
                        Some(Ok((record, _))) => {
                            let text = format!("its record has {} bytes, {RECORD_LEN_MAX} may be given", record.len());
                            return Ok(self.entry(Outcome::TooLarge, text.into()));
                        }
                        Some(Err(error)) => error,
                        None => PANICKED,
                    }
                }
                Err(error) => error,
            };
            let outcome = match failed {
                LayoutError::Unknown(_) => Outcome::Unknown,
                LayoutError::Damaged(_) => Outcome::Damaged,
                LayoutError::TooLarge { .. } => Outcome::TooLarge,
            };
            return Ok(self.entry(outcome, failed.to_string().into()));
        }
    }

    fn entry(&mut self, outcome: Outcome, bytes: Bytes) -> Entry {
        Entry { outcome, memory_len: 0, touched: std::mem::take(&mut self.touched), bytes }
    }

    /// Gives the parser what it wants.
    async fn go_on(&mut self, inquiry: Inquiry) -> Result<Result<Next, LayoutError>, Ended> {
        let want = inquiry.want();
        // A part of it once more while it is put together.
        let Some(memory) = self.service.budget.take_for_read(2 * want.len) else {
            return Err(Ended::Answer(Answer::Busy("this node has no memory left for it".to_owned())));
        };
        let bytes = self.bytes(want).await?;
        let given = self.apart(move || {
            let _memory = memory;
            inquiry.give(&bytes)
        });
        Ok(given.await.unwrap_or(Err(PANICKED)))
    }

    /// Runs what takes processor time beside the tasks. `None`: it panicked.
    async fn apart<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let place = Arc::clone(&self.place);
        let done = io::task::blocking(move || {
            let _place = place;
            catch_unwind(AssertUnwindSafe(work))
        });
        match done.await {
            Ok(done) => Some(done),
            Err(panic) => {
                let (reason, last) = (io::task::panic_text(&*panic), self.request.blocks.last());
                let block = last.map_or(0, |block| block.block);
                tracing::error!(block, reason, "the layout of a file made its parser panic; the node goes on");
                None
            }
        }
    }

    /// Bytes of the file, verified.
    async fn bytes(&mut self, want: Want) -> Result<Vec<u8>, Ended> {
        let (mut at, end) = (want.offset, want.offset.saturating_add(want.len));
        let mut bytes = Vec::with_capacity(want.len as usize);
        let not_here = |offset| Ended::Answer(Answer::NotHere { offset, len: end - offset });
        while at < end {
            let holds = |block: &&LayoutBlock| block.offset <= at && at < block.end();
            let Some(place) = self.request.blocks.iter().position(|block| holds(&block)) else {
                return Err(not_here(at));
            };
            let block = self.request.blocks[place];
            self.begin(&block);
            let part_end = block.end().min(end);
            let asked = Asked { from: at - block.offset, len: (part_end - at) as u32 };
            match self.read(place, asked).await {
                Ok((mut part, file)) => {
                    self.touch(&block, file);
                    bytes.append(&mut part);
                }
                Err(refused) if refused.status == Status::ERROR_ACCESS_TOKEN => return Err(Ended::Refused(refused)),
                Err(refused) => {
                    tracing::debug!(why = rpc::log_text(&refused.message), "a block for a layout cannot be read here");
                    let Some((mut part, file)) = self.read_elsewhere(place, asked).await else {
                        return Err(not_here(at));
                    };
                    self.touch(&block, file);
                    bytes.append(&mut part);
                }
            }
            at = part_end;
        }
        Ok(bytes)
    }

    /// Noted before it is read: it may be this one that takes too long.
    fn begin(&mut self, block: &LayoutBlock) {
        if !self.begun.contains(block) {
            self.begun.push(*block);
        }
    }

    fn touch(&mut self, block: &LayoutBlock, file: FileId) {
        if !self.touched.iter().any(|touched| touched.is(block)) {
            let LayoutBlock { offset, len, .. } = *block;
            let (id, generation) = (types::BlockId(block.block), types::Generation(block.generation));
            self.touched.push(Touched { offset, block: id, generation, len, file });
        }
    }

    /// Bytes of one block, and whose it is.
    async fn read(&self, place: usize, asked: Asked) -> Result<(Vec<u8>, FileId), Refusal> {
        let named = self.service.admission.layout(self.request, place)?;
        // Of a replica that grows, too, what is there now: the place is wanted by others.
        let opened = if_it_serves(self.service, named, move |reader| {
            Ok(match has_all(stored(&reader), &[asked]) {
                Ok(()) => Ok((verified(&reader, asked)?, reader.identity().file)),
                Err(unserved) => Err(unserved),
            })
        });
        let opened = opened.await.inspect_err(|refused| {
            if refused.status == Status::ERROR_CHECKSUM
                && let Some(passed_over) = self.service.log_limits.found_unsound.due()
            {
                tracing::warn!(block = %named.block(), passed_over, "stored bytes do not match their checksum");
            }
        });
        opened?.map_err(|unserved| Refusal::error(format!("{}: {unserved}", named.block())))
    }
}

/// Nodes that are asked for a block.
const SOURCE_COUNT_MAX: usize = 3;
/// Reads of other nodes for one file. A footer and what it points to take a few; each may take some round trips.
const READ_COUNT_MAX: usize = 64;

/// Of whose file a block is, that was read without a token on another node.
pub(super) const NOT_SAID: FileId = InodeId(0);

impl Asking<'_> {
    /// As [`Self::read`], of other nodes: those that the metadata server names, by the asker's token, which they check.
    async fn read_elsewhere(&mut self, place: usize, asked: Asked) -> Option<(Vec<u8>, FileId)> {
        let named = self.service.admission.layout(self.request, place).ok()?;
        let of = self.request.blocks.get(place)?;
        let addrs = self.sources(place, of.block).await?;
        let token = self.request.tokens.get(of.token as usize)?;
        let order = CopyOrder {
            block: of.block,
            generation: of.generation,
            len: of.len,
            token: Some(BlockToken { identifier: token.identifier.clone(), password: token.password.clone() }),
            ..CopyOrder::default()
        };
        let range = Range { from: asked.from, end: asked.end() };
        for addr in addrs {
            self.elsewhere.begin_read()?;
            // As many connections lead to other nodes as may.
            let onward = self.service.admission.onward().ok()?;
            let fetcher = Fetcher::new(&self.service.limits, Some(Arc::clone(&self.service.outward)));
            let (order, pool) = (order.clone(), self.request.pool.clone());
            let read = self.apart(move || {
                let _onward = onward;
                fetcher.bytes(&addr, &pool, &order, range)
            });
            match read.await? {
                Ok(bytes) => return Some((bytes, named.file().unwrap_or(NOT_SAID))),
                Err(CopyError::Source { reason, .. } | CopyError::Own(reason)) => {
                    tracing::debug!(reason, "another node does not bring a block for a layout");
                }
            }
        }
        None
    }
}

impl Asking<'_> {
    /// The nodes that have a block, as they were named when they were asked for first.
    async fn sources(&mut self, place: usize, block: u64) -> Option<Vec<String>> {
        if let Some(known) = self.elsewhere.sources.get(&place) {
            return Some(known.clone());
        }
        match self.leader?.asker()?.sources(block).await {
            Ok(mut addrs) => {
                addrs.truncate(SOURCE_COUNT_MAX);
                self.elsewhere.sources.insert(place, addrs.clone());
                Some(addrs)
            }
            Err(error) => {
                tracing::debug!(error = rpc::log_text(&error), "nobody says who has a block for a layout");
                None
            }
        }
    }
}

impl Elsewhere {
    /// `None`: there were as many as may be.
    fn begin_read(&mut self) -> Option<()> {
        self.read_count += 1;
        (self.read_count <= READ_COUNT_MAX).then_some(())
    }
}

/// Keep it: it would panic again.
const PANICKED: LayoutError = LayoutError::Unknown("its parser failed");

/// Reads whole chunks, as checksums cover these, and holds them against what is stored. Waits for the disk.
fn verified(reader: &Reader, asked: Asked) -> Result<Vec<u8>, Refusal> {
    let spec = reader.checksum();
    let chunk_len = u64::from(spec.chunk_len);
    let start = asked.from - asked.from % chunk_len;
    let end = asked.end().next_multiple_of(chunk_len).min(reader.len());
    let (mut data, mut sums) = (vec![0; (end - start) as usize], Vec::new());
    reader.read_at(start, &mut data)?;
    reader.sums(start, end - start, &mut sums)?;
    if let Err(bad) = spec.verify(&data, &sums) {
        let corrupt = ReplicaError::Corrupt { block: reader.identity().block, offset: start + bad as u64 };
        return Err(Refusal { status: Status::ERROR_CHECKSUM, ..Refusal::error(corrupt.to_string()) });
    }
    data.truncate((asked.end() - start) as usize);
    data.drain(..(asked.from - start) as usize);
    reader.count_sent(data.len() as u64);
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_is_not_read_of_other_nodes_for_ever() {
        let mut elsewhere = Elsewhere::default();
        let begun = (0..1000).filter(|_| elsewhere.begin_read().is_some()).count();
        assert_eq!(begun, READ_COUNT_MAX);
    }
}
