//! Asks a file for its layout: bytes of blocks that are here, and of others those that other nodes have.

use super::apart::Apart;
use super::elsewhere::Elsewhere;
use super::entry::{Entry, Outcome, Touched};
use super::room::Room;
use crate::data_service::DataService;
use crate::read::{if_it_serves, stored};
use bytes::Bytes;
use container::{Reader, ReplicaError};
use layout::{Answer as Next, Inquiry, LayoutError, Limits, Want};
use types::FileId;
use wire::Status;
use wire::layouts::{Answer, LayoutBlock, RECORD_LEN_MAX, ReadLayout};
use wire::ranges::Asked;
use xfer::answer::Refusal;
use xfer::ranges::has_all;

/// A quarter of the usual limits: a datanode has other work. What is asked for at once is taken from the node's
/// `memory`, and so is what is made of it.
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
    pub(super) request: &'a ReadLayout,
    pub(super) apart: Apart,
    pub(super) touched: Vec<Touched>,
    /// Blocks that it was begun to read, as the request names them.
    pub(super) begun: Vec<LayoutBlock>,
    pub(super) elsewhere: Elsewhere<'a>,
}

/// What a file said.
pub(super) struct Said {
    pub(super) entry: Entry,
    /// Whether others may be given it: whose file it is was held against the asker's token, by the last block's
    /// replica.
    pub(super) is_sure: bool,
}

fn no_memory() -> Ended {
    Ended::Answer(Answer::Busy("this node has no memory left for it".to_owned()))
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
        let mut room = Room::new(self.service.budget.take_for_read(0).ok_or_else(no_memory)?);
        let begun = layout::begin_in_room(self.request.file_len, LIMITS, Box::new(room.clone()));
        let mut asked = begun.map(Next::Ask);
        loop {
            let failed = match asked {
                Ok(Next::Ask(inquiry)) => {
                    asked = self.go_on(inquiry).await?;
                    continue;
                }
                Ok(Next::Done(layout)) => {
                    // A record is shorter, in a list that grew to twice its length.
                    if !layout::Room::take(&mut room, 2 * layout.memory_len()) {
                        return Err(no_memory());
                    }
                    let encode = move || layout::encode(&layout).map(|record| (record, layout.memory_len()));
                    match self.apart.run(encode).await {
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
                // Another one may have it, or this one later.
                LayoutError::NoRoom => return Err(no_memory()),
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
            return Err(no_memory());
        };
        // Where the footers of stripes lie is known before they are wanted: the reader names all their blocks at once.
        let bytes = self.bytes(want, inquiry.coming_end()).await?;
        let given = self.apart.run(move || {
            let _memory = memory;
            inquiry.give(&bytes)
        });
        Ok(given.await.unwrap_or(Err(PANICKED)))
    }

    /// Bytes of the file, verified. `coming_end`: so far reaches what will be wanted next.
    async fn bytes(&mut self, want: Want, coming_end: u64) -> Result<Vec<u8>, Ended> {
        let (mut at, end) = (want.offset, want.offset.saturating_add(want.len));
        let mut bytes = Vec::with_capacity(want.len as usize);
        let not_here = |offset, end| Ended::Answer(Answer::NotHere { offset, len: end - offset });
        while at < end {
            let holds = |block: &&LayoutBlock| block.offset <= at && at < block.end();
            let Some(place) = self.request.blocks.iter().position(|block| holds(&block)) else {
                return Err(not_here(at, end.max(coming_end)));
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
                    let elsewhere = self.elsewhere.read(self.service, self.request, (place, asked), &self.apart);
                    let Some((mut part, file)) = elsewhere.await else { return Err(not_here(at, end)) };
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
