//! Reading many ranges of many blocks by one request (op 201).
//!
//! ```text
//! blocks in the order of their disks ──▶ open ──▶ batches ──▶ answer │ parts │ parts │ … │ end
//!                                                └─ each made within its disk's quota of threads
//! ```
//!
//! Promise: a request waits for one disk at a time and holds nothing of another meanwhile, so two of them never wait
//! for each other. A block that is refused leaves the others alone. The memory of one batch and of what was asked for
//! is all that a request takes.

use crate::admission::{Named, Transfer};
use crate::connection::Connection;
use crate::data_service::DataService;
use crate::operations::Operation;
use crate::read::{once_it_serves, stored};
use container::{Reader, ReplicaError};
use std::io::{Error, ErrorKind, Result};
use std::ops::Range;
use std::time::Duration;
use types::{BlockId, ChecksumSpec};
use wire::ranges::{Asked, PartHead, ReadRanges};
use wire::{Status, WireError};
use xfer::answer::{self, Refusal, success};
use xfer::memory::Held;
use xfer::ranges::{Composer, Made, Piece, Plan, Source, Unread, has_all, memory_len, refusal};

/// What a range takes while its request is served: what was asked for, and its part in the plan and in a batch, whose
/// list grows by doubling.
const RANGE_LEN: u64 = (size_of::<Asked>() + 3 * size_of::<[u64; 3]>()) as u64;

/// As chunks are, as a rule: with longer ones it takes more.
const CHUNK_LEN: u32 = ChecksumSpec::DEFAULT.chunk_len;

/// Serves one request. `Ok(true)`: the connection may carry another operation.
pub(crate) async fn serve(
    service: &DataService,
    connection: &mut Connection,
    request: ReadRanges,
    place: &Transfer,
) -> Result<std::result::Result<bool, Refusal>> {
    let counted = service.operations.begin(Operation::ReadRanges, || service.now());
    let asked = match request.asked() {
        Ok(asked) => asked,
        Err(error) => {
            counted.refused();
            return Ok(Err(not_understood(&error)));
        }
    };
    let count: usize = asked.iter().map(Vec::len).sum();
    let asked_len = count as u64 * RANGE_LEN;
    let made_len = memory_len(CHUNK_LEN, asked.iter().flatten().copied());
    let take = || service.budget.take_for_read(asked_len + made_len);
    let Some(mut memory) = service.room_for_read(take).await else {
        counted.refused();
        return Ok(Err(no_memory()));
    };
    tracing::debug!(count, blocks = asked.len(), client = rpc::log_text(&request.client), "a read of ranges begins");
    let firsts: Vec<u32> =
        asked.iter().scan(0, |first, ranges| Some(std::mem::replace(first, *first + ranges.len() as u32))).collect();
    let mut order: Vec<usize> = (0..asked.len()).filter(|place| !asked[*place].is_empty()).collect();
    order.sort_by_key(|place| {
        let block = BlockId(request.blocks[*place].block);
        (service.replicas.disks.asked_at(block), block)
    });
    // With what follows: a new connection brings ten segments in its first round trip, short ones or not. What has to
    // wait for a disk is not waited for: the kernel holds it back for a moment.
    let answer = answer::encode(success());
    send_within(service, place, connection.send_all(&answer, !order.is_empty())).await?;
    let mut composer = Composer::default();
    for number in order {
        let (first, asked) = (firsts[number], &asked[number]);
        let mut of_block = OfBlock { service, place, connection: &mut *connection, first, asked };
        let reader = match open(service, asked, service.admission.ranges(&request, number)).await {
            Ok(reader)
                if memory.grow_to(asked_len + memory_len(reader.checksum().chunk_len, asked.iter().copied())) =>
            {
                reader
            }
            Ok(_) => {
                of_block.refuse(&no_memory()).await?;
                continue;
            }
            Err(refused) => {
                of_block.refuse(&refused).await?;
                continue;
            }
        };
        of_block.serve(&reader, &mut composer).await?;
    }
    send_within(service, place, connection.send_all(&PartHead::End.encode(), false)).await?;
    counted.done();
    Ok(Ok(true))
}

fn no_memory() -> Refusal {
    Refusal::error("no memory left for another read; try another node")
}

fn not_understood(error: &WireError) -> Refusal {
    Refusal { status: Status::ERROR_INVALID, ..Refusal::error(error.to_string()) }
}

/// One block of a request.
struct OfBlock<'a> {
    service: &'a DataService,
    place: &'a Transfer,
    connection: &'a mut Connection,
    /// The number of its first range; of the first one that is not sent.
    first: u32,
    asked: &'a [Asked],
}

impl OfBlock<'_> {
    async fn refuse(&mut self, refused: &Refusal) -> Result<()> {
        tracing::debug!(why = rpc::log_text(&refused.message), "ranges of a block were refused");
        let bytes = refusal(self.first, refused.status, &refused.message);
        send_within(self.service, self.place, self.connection.send_all(&bytes, false)).await
    }

    async fn serve(&mut self, reader: &Reader, composer: &mut Composer) -> Result<()> {
        let block = reader.identity().block;
        let mut plan = match Plan::new(stored(reader), self.first, self.asked, composer) {
            Ok(plan) => plan,
            Err(short) => return self.refuse(&Refusal::error(format!("{block}: {short}"))).await,
        };
        while let Some(batch) = plan.next_batch() {
            let quota = self.service.replicas.disks.quota_of(block);
            let (mut source, first) = (Stored(reader.clone()), batch.first());
            let refused = match quota.run(move || batch.make(&mut source)).await {
                Ok(Ok(made)) => {
                    self.send(reader, made).await?;
                    continue;
                }
                Ok(Err(unread)) => self.unread(block, unread),
                Err(hung) => Refusal::error(hung.to_string()),
            };
            // Nothing more is sent of the block.
            self.first = first;
            return self.refuse(&refused).await;
        }
        Ok(())
    }

    fn unread(&self, block: BlockId, unread: Unread<ReplicaError>) -> Refusal {
        match unread {
            Unread::Unsound { offset } => {
                if let Some(passed_over) = self.service.log_limits.found_unsound.due() {
                    tracing::warn!(%block, offset, passed_over, "stored bytes do not match their checksum");
                }
                let message = format!("{block}: checksum error at {offset}");
                Refusal { status: Status::ERROR_CHECKSUM, ..Refusal::error(message) }
            }
            Unread::Source(error) => Refusal::from(error),
        }
    }

    async fn send(&mut self, reader: &Reader, made: Made) -> Result<()> {
        let (service, connection) = (self.service, &mut *self.connection);
        let quota = service.replicas.disks.quota_of(reader.identity().block);
        for Piece { bytes, file } in made {
            let len = file.end - file.start;
            let sending = async {
                // What may have to wait for a disk behind it holds nothing back.
                connection.send_all(&bytes, len > 0).await?;
                connection.sendfile_all(reader.data(), quota, reader.data_offset() + file.start, len).await
            };
            send_within(service, self.place, sending).await?;
            let sent_len = bytes.len() as u64 + len;
            reader.count_sent(sent_len);
            service.operations.bytes(Operation::ReadRanges).inc_by(sent_len);
        }
        Ok(())
    }
}

/// The replica, once it has all that is asked for.
async fn open(
    service: &DataService,
    asked: &[Asked],
    named: std::result::Result<Named, Refusal>,
) -> std::result::Result<Reader, Refusal> {
    let (named, asked) = (named?, asked.to_vec());
    let opened = once_it_serves(service, named, move |reader| Ok(has_all(stored(&reader), &asked).map(|()| reader)));
    opened.await?.map_err(|unserved| Refusal::error(format!("{}: {unserved}", named.block())))
}

/// To a reader that takes it in time.
async fn send_within(service: &DataService, place: &Transfer, sending: impl Future<Output = Result<()>>) -> Result<()> {
    let limit = Duration::from_millis(service.limits.reader_stalled_ms);
    tokio::time::timeout(limit, place.wait_for_peer(sending)).await.map_err(|_| Error::from(ErrorKind::TimedOut))?
}

/// A replica as a source of batches.
struct Stored(Reader);

impl Source for Stored {
    type Error = ReplicaError;

    fn data(&mut self, range: Range<u64>, into: &mut Vec<u8>) -> std::result::Result<(), ReplicaError> {
        let start = into.len();
        into.resize(start + (range.end - range.start) as usize, 0);
        self.0.read_at(range.start, &mut into[start..])
    }

    fn sums(&mut self, range: Range<u64>, into: &mut Vec<u8>) -> std::result::Result<(), ReplicaError> {
        self.0.sums(range.start, range.end - range.start, into)
    }
}
