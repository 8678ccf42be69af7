//! Where the columns of a file lie (op 202): read beside the data, by whichever node has it, and kept.
//!
//! ```text
//! request ──▶ in memory? ──▶ on the disk? ──▶ one at a time for a file, few for all ──▶ ask the file ──▶ keep it
//!                  └─────────────┴──▶ has the asker tokens for the blocks it was made of? ──▶ the columns it wants
//! ```
//!
//! An entry is that of the file's last block, which is here: its replica says whose file it is.
//!
//! Promise: nobody learns of a file what its token does not let it read. A hostile file costs a bounded amount of
//! memory and time, once: what cannot be read is kept, too. Nothing here is needed for anything else: where there is
//! neither room nor time, the answer is that the node is busy.

mod apart;
mod asking;
mod elsewhere;
mod entry;
mod made;
mod part;
mod recent;
mod room;
mod shelf;
mod timed_out;
mod window;

use crate::admission::Transfer;
use crate::budget::Reservation;
use crate::connection::Connection;
use crate::data_service::DataService;
use crate::metad::Leader;
use crate::operations::Operation;
use apart::Apart;
use asking::{Asking, Ended, Said};
use disks::Disks;
use elsewhere::{Elsewhere, NOT_SAID};
use entry::{Entry, Key, Touched};
use made::Made;
use metrics::{Counter, Registry};
use part::{MADE_FACTOR, Part};
use recent::Recent;
use shelf::Shelf;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::io::{Error, ErrorKind, Result};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use timed_out::TimedOut;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use wire::Status;
use wire::layouts::{Answer, LayoutBlock, PART_COUNT_MAX, ReadLayout, Wish};
use xfer::answer::{self, Refusal, success};
use xfer::memory::Held;

/// Files asked at a time: each may take some hundred megabytes, and a thread.
const ASKING_COUNT_MAX: usize = 2;
/// Records read from the disk, and answers made of records, at a time.
const ANSWERING_COUNT_MAX: usize = 4;
/// Requests that wait for their turn to ask; more are answered as busy. Two readers far away with all parts of their
/// windows.
const WAITING_COUNT_MAX: usize = 2 * PART_COUNT_MAX as usize;
/// How long one waits. A guess: less than it takes to do without.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// How long a file is asked at most. The slowest by purpose takes some seconds of a core.
const ASKING_MAX: Duration = Duration::from_secs(20);
/// How long a record takes on its way at most: readers do without after this time.
const SENDING_MAX: Duration = Duration::from_secs(40);
/// Files that are told apart where each is to be asked once. Two that are not wait for each other.
const FILE_COUNT: usize = 16;

#[derive(Debug)]
pub(crate) struct Layouts {
    disks: Disks,
    recent: Recent,
    made: Arc<Made>,
    shelf: Arc<Shelf>,
    waiting: Semaphore,
    asking: Arc<Semaphore>,
    answering: Arc<Semaphore>,
    alone: [Mutex<()>; FILE_COUNT],
    /// Of a record one answer is made at a time: the parts of a window are asked for together, and take what the first
    /// of them made.
    making: [Arc<Mutex<()>>; FILE_COUNT],
    timed_out: TimedOut,
    counts: Counts,
    /// Who says which other nodes have a block.
    leader: OnceLock<Arc<Leader>>,
}

#[derive(Debug)]
struct Counts {
    in_memory: Counter,
    on_disk: Counter,
    asked: Counter,
    not_here: Counter,
    busy: Counter,
    bytes: Counter,
}

/// Where an entry was found.
enum Found {
    Memory,
    Disk,
}

/// What is known of a file, for one request.
struct Known {
    entry: Arc<Entry>,
    /// For the record, while it is needed.
    memory: Reservation,
}

impl Layouts {
    /// `len_max`: bytes on the disk.
    pub(crate) fn new(registry: &mut Registry, disks: &Disks, len_max: u64) -> Self {
        let requests = registry.counters(
            "levada_layout_requests_total",
            "Requests for layouts, by where the answer came from, or why there was none",
            &["result"],
        );
        let counts = Counts {
            in_memory: requests.with(&["in_memory"]),
            on_disk: requests.with(&["on_disk"]),
            asked: requests.with(&["asked"]),
            not_here: requests.with(&["not_here"]),
            busy: requests.with(&["busy"]),
            bytes: registry.counter("levada_layout_sent_bytes_total", "Bytes of the records of layouts that were sent"),
        };
        Self {
            shelf: Arc::new(Shelf::new(disks.layouts(), len_max)),
            disks: disks.clone(),
            recent: Recent::default(),
            made: Arc::default(),
            waiting: Semaphore::new(WAITING_COUNT_MAX),
            asking: Arc::new(Semaphore::new(ASKING_COUNT_MAX)),
            answering: Arc::new(Semaphore::new(ANSWERING_COUNT_MAX)),
            alone: Default::default(),
            making: Default::default(),
            timed_out: TimedOut::default(),
            counts,
            leader: OnceLock::new(),
        }
    }

    /// Before, nobody is asked which other nodes have a block.
    pub(crate) fn ask_by(&self, leader: Arc<Leader>) {
        let _there_is_one = self.leader.set(leader);
    }

    /// Bytes on the disk.
    pub(crate) fn kept_len(&self) -> u64 {
        self.shelf.len()
    }

    /// What is sent, and its memory.
    async fn answer(
        &self,
        service: &DataService,
        request: ReadLayout,
        wish: Wish,
    ) -> std::result::Result<(Part, Option<Reservation>), Refusal> {
        let answered = async {
            let known = self.known(service, &request).await?;
            match known.entry.why_not() {
                Some(why_not) => Ok((Part { answer: why_not, ranges: None }, None)),
                None => self.part(known, request, wish).await.map(|(part, memory)| (part, Some(memory))),
            }
        };
        match answered.await {
            Ok(answered) => Ok(answered),
            Err(Ended::Refused(refused)) => Err(refused),
            Err(Ended::Answer(answer)) => {
                match answer {
                    Answer::NotHere { .. } => self.counts.not_here.inc(),
                    _ => self.counts.busy.inc(),
                };
                Ok((Part { answer, ranges: None }, None))
            }
        }
    }

    /// What is known of the file, after it was asked if need be; or what is answered instead.
    async fn known(&self, service: &DataService, request: &ReadLayout) -> std::result::Result<Known, Ended> {
        let no_block = || Ended::Refused(Refusal::error("it names no block"));
        let key = Key::of(request).ok_or_else(no_block)?;
        let last = request.blocks.len().checked_sub(1).ok_or_else(no_block)?;
        // Before anything is looked for, also of what is known of the file.
        let named = service.admission.layout(request, last).map_err(Ended::Refused)?;
        if let Some(known) = self.kept(service, request, key).await? {
            return Ok(known);
        }
        let asked_for = (key, named.file());
        if self.timed_out.has(asked_for, &request.blocks, service.now()) {
            return Err(Ended::Answer(Answer::Busy("this file could not be asked in time; do without".to_owned())));
        }
        let Ok(_waits) = self.waiting.try_acquire() else { return Err(Ended::Answer(busy())) };
        let turn = async {
            let place = BuildHasherDefault::<DefaultHasher>::default().hash_one(key) as usize % FILE_COUNT;
            let alone = self.alone[place].lock().await;
            (alone, Arc::clone(&self.asking).acquire_owned().await)
        };
        let Ok((_alone, Ok(place))) = tokio::time::timeout(WAIT_MAX, turn).await else {
            return Err(Ended::Answer(busy()));
        };
        // Another may have asked meanwhile.
        if let Some(known) = self.kept(service, request, key).await? {
            return Ok(known);
        }
        let (apart, elsewhere) = (Apart::new(place, request.blocks[last].block), Elsewhere::by(self.leader.get()));
        let (touched, begun) = (Vec::new(), Vec::new());
        let mut asking = Asking { service, request, apart, touched, begun, elsewhere };
        let Ok(said) = tokio::time::timeout(ASKING_MAX, asking.run()).await else {
            self.timed_out.put(asked_for, asking.begun, service.now());
            return Err(Ended::Answer(busy()));
        };
        let Said { entry, is_sure } = said?;
        let entry = Arc::new(entry);
        self.counts.asked.inc();
        if is_sure {
            self.keep(service, key, &entry).await;
        }
        let memory = memory(service, entry.bytes.len() as u64)?;
        Ok(Known { entry, memory })
    }

    /// What is kept of the file, if it is the file that is asked for.
    async fn kept(
        &self,
        service: &DataService,
        request: &ReadLayout,
        key: Key,
    ) -> std::result::Result<Option<Known>, Ended> {
        let (known, found) = match self.recent.get(key) {
            Some(entry) => {
                let memory = memory(service, entry.bytes.len() as u64)?;
                (Known { entry, memory }, Found::Memory)
            }
            None => match self.on_disk(service, key).await? {
                Some(known) => (known, Found::Disk),
                None => return Ok(None),
            },
        };
        let entry = &known.entry;
        // That of the key comes first: who may not read the file does not learn which blocks it is missing.
        let place_of = |touched: &Touched| {
            let overlaps = |block: &LayoutBlock| touched.offset < block.end() && block.offset < touched.end();
            request.blocks.iter().position(overlaps)
        };
        for touched in &entry.touched {
            let Some(place) = place_of(touched) else {
                // All that are missing, else each would cost a request.
                let missing = entry.touched.iter().filter(|touched| place_of(touched).is_none());
                let (offset, end) = missing.fold((touched.offset, touched.end()), |(offset, end), touched| {
                    (offset.min(touched.offset), end.max(touched.end()))
                });
                return Err(Ended::Answer(Answer::NotHere { offset, len: end - offset }));
            };
            if !touched.is(&request.blocks[place]) {
                return Ok(None);
            }
            let named = service.admission.layout(request, place).map_err(Ended::Refused)?;
            // Made when nobody was asked for tokens: by now the file has to be asked again.
            if touched.file == NOT_SAID && named.file().is_some() {
                return Ok(None);
            }
            service.admission.must_cover(&named, touched.file).map_err(Ended::Refused)?;
        }
        match found {
            Found::Memory => self.counts.in_memory.inc(),
            Found::Disk => {
                self.recent.put(key, Arc::clone(entry));
                self.counts.on_disk.inc()
            }
        };
        Ok(Some(known))
    }

    /// What is kept on the disk: memory is taken, and a turn waited for, before it is read.
    async fn on_disk(&self, service: &DataService, key: Key) -> std::result::Result<Option<Known>, Ended> {
        let shelf = Arc::clone(&self.shelf);
        let Ok(Some(found)) = self.disks.for_disk(0, move |_| shelf.find(key)).await else { return Ok(None) };
        let place = self.turn_to_answer().await?;
        let memory = memory(service, found.len)?;
        let (shelf, now) = (Arc::clone(&self.shelf), service.replicas.wall());
        let loaded = self.disks.for_disk(0, move |_| {
            let _place = place;
            shelf.load(key, found, now).map(|entry| Known { entry: Arc::new(entry), memory })
        });
        Ok(loaded.await.ok().flatten())
    }

    async fn turn_to_answer(&self) -> std::result::Result<OwnedSemaphorePermit, Ended> {
        let turn = tokio::time::timeout(WAIT_MAX, Arc::clone(&self.answering).acquire_owned()).await;
        turn.ok().and_then(|place| place.ok()).ok_or_else(|| Ended::Answer(busy()))
    }

    async fn keep(&self, service: &DataService, key: Key, entry: &Arc<Entry>) {
        self.recent.put(key, Arc::clone(entry));
        let (shelf, entry) = (Arc::clone(&self.shelf), Arc::clone(entry));
        match self.disks.for_disk(0, move |_| shelf.put(key, &entry)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.not_kept(service, &error),
            Err(error) => self.not_kept(service, &error),
        }
    }

    fn not_kept(&self, service: &DataService, error: &dyn std::error::Error) {
        if let Some(passed_over) = service.log_limits.layout_not_kept.due() {
            tracing::warn!(%error, passed_over, "a layout cannot be kept on the disk");
        }
    }

    /// What is wanted of a record.
    async fn part(
        &self,
        known: Known,
        request: ReadLayout,
        wish: Wish,
    ) -> std::result::Result<(Part, Reservation), Ended> {
        let Known { entry, mut memory } = known;
        if let Some(part) = part::as_it_is(&entry.bytes, &request, &wish) {
            return Ok((part, memory));
        }
        let place = BuildHasherDefault::<DefaultHasher>::default().hash_one(Arc::as_ptr(&entry)) as usize % FILE_COUNT;
        let making = Arc::clone(&self.making[place]);
        let turn = async {
            let alone = making.lock_owned().await;
            match self.made.get(&entry, &request, &wish) {
                Some(selection) => Ok(selection),
                None => Err((alone, Arc::clone(&self.answering).acquire_owned().await)),
            }
        };
        let turn = tokio::time::timeout(WAIT_MAX, turn).await.map_err(|_| Ended::Answer(busy()))?;
        let (alone, place) = match turn {
            Ok(selection) => {
                let part = part::of_selection(Ok(selection), request);
                memory.shrink_to(part.len());
                return Ok((part, memory));
            }
            Err((alone, place)) => (alone, place.map_err(|_| Ended::Answer(busy()))?),
        };
        if !memory.grow_to(entry.memory_len.saturating_mul(MADE_FACTOR).saturating_add(memory.held_len())) {
            return Err(Ended::Answer(no_memory()));
        }
        let kept = Arc::clone(&self.made);
        let made = io::task::blocking(move || {
            let _turn = (alone, place);
            let selected = part::select(&entry.bytes, &request, &wish)
                .inspect(|selection| kept.put(&entry, &request, wish, selection));
            let part = part::of_selection(selected, request);
            // The record that it was made of goes now.
            drop(entry);
            memory.shrink_to(part.len());
            (part, memory)
        });
        Ok(made.await)
    }
}

fn busy() -> Answer {
    Answer::Busy("this node asks as many files for their layouts as it may; try another node".to_owned())
}

fn no_memory() -> Answer {
    Answer::Busy("no memory left for another layout; try another node".to_owned())
}

fn memory(service: &DataService, len: u64) -> std::result::Result<Reservation, Ended> {
    service.budget.take_for_read(len).ok_or_else(|| Ended::Answer(no_memory()))
}

/// Serves one request. `Ok(true)`: the connection may carry another operation.
pub(crate) async fn serve(
    layouts: &Layouts,
    service: &DataService,
    connection: &mut Connection,
    request: ReadLayout,
    place: &Transfer,
) -> Result<std::result::Result<bool, Refusal>> {
    let counted = service.operations.begin(Operation::Layout, || service.now());
    let answered = match request.checked() {
        Ok(wish) => layouts.answer(service, request, wish).await,
        Err(error) => Err(Refusal { status: Status::ERROR_INVALID, ..Refusal::error(error.to_string()) }),
    };
    let (Part { answer, ranges }, mut memory) = match answered {
        Ok(answered) => answered,
        Err(refused) => {
            counted.refused();
            return Ok(Err(refused));
        }
    };
    let answer = answer.into_message();
    layouts.counts.bytes.inc_by(answer.record.len() as u64);
    let mut head = answer::encode(success());
    head.extend_from_slice(&answer.head());
    // The window is behind it.
    let goes_on = ranges.is_some();
    let sending = async {
        connection.send_all(&head, goes_on || !answer.record.is_empty()).await?;
        connection.send_all(&answer.record, goes_on).await
    };
    let limit = SENDING_MAX.min(Duration::from_millis(service.limits.reader_stalled_ms));
    tokio::time::timeout(limit, place.wait_for_peer(sending)).await.map_err(|_| Error::from(ErrorKind::TimedOut))??;
    counted.done();
    drop(answer);
    let Some(ranges) = ranges else { return Ok(Ok(true)) };
    // The window takes its own.
    if let Some(memory) = &mut memory {
        memory.shrink_to(ranges.ranges.len() as u64);
    }
    crate::ranges::serve(service, connection, ranges, place).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;
    use container::Options;
    use std::task::Poll;

    fn known(budget: &Budget) -> Known {
        let pieces = (0..1000).map(|n| layout::Piece { first: n, offset: n * 10, len: 10 }).collect();
        let column = layout::Column { name: String::new(), pieces };
        let table = layout::Table { entries: 1000, columns: vec![column], ..layout::Table::default() };
        let of = layout::Layout { tables: vec![table] };
        let bytes = layout::encode(&of).unwrap().into();
        let entry = Entry { memory_len: of.memory_len(), bytes, ..entry::tests::entry(0) };
        let memory = budget.take_for_read(entry.bytes.len() as u64).unwrap();
        Known { entry: Arc::new(entry), memory }
    }

    /// A record is short, what it is decoded to is not.
    #[tokio::test]
    async fn a_part_is_made_where_there_is_memory_for_it_and_then_holds_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let disks = disks::open(&[dir.path().to_owned()], &Options::default()).unwrap();
        let layouts = Layouts::new(&mut Registry::default(), &disks, 1 << 20);
        let wish = || Wish::Columns(vec![(0, 0)]);
        let little = Budget::new(64 << 10);
        let refused = layouts.part(known(&little), ReadLayout::default(), wish()).await;
        assert!(matches!(refused, Err(Ended::Answer(Answer::Busy(_)))));
        assert_eq!(little.used_len(), 0);
        let (part, memory) = layouts.part(known(&little), ReadLayout::default(), Wish::All).await.ok().unwrap();
        assert_eq!(little.used_len(), part.len(), "nothing has to be made for all of it");
        drop((part, memory));
        let plenty = Budget::new(1 << 20);
        let (part, memory) = layouts.part(known(&plenty), ReadLayout::default(), wish()).await.ok().unwrap();
        assert!(matches!(part.answer, Answer::Found(_)));
        assert_eq!((plenty.used_len(), memory.held_len()), (part.len(), part.len()));
    }

    /// A window of the talk's table comes in 137 parts, and a record of 225 KB is decoded to 9 MB.
    #[tokio::test]
    async fn parts_that_are_asked_for_together_take_the_memory_of_one() {
        let dir = tempfile::tempdir().unwrap();
        let disks = disks::open(&[dir.path().to_owned()], &Options::default()).unwrap();
        let layouts = Layouts::new(&mut Registry::default(), &disks, 1 << 20);
        let budget = Budget::new(1 << 20);
        let Known { entry, memory } = known(&budget);
        let record_len = memory.held_len();
        drop(memory);
        let made_len = MADE_FACTOR * entry.memory_len;
        let budget = Budget::new(100 * record_len + made_len + made_len / 2);
        let parts = (0..100).map(|part| {
            let memory = budget.take_for_read(record_len).unwrap();
            let known = Known { entry: Arc::clone(&entry), memory };
            let request = ReadLayout { window_len: 100, part_count: 100, part, ..ReadLayout::default() };
            layouts.part(known, request, Wish::Columns(vec![(0, 0)]))
        });
        let parts = futures_util::future::join_all(parts).await;
        assert!(parts.into_iter().all(|part| part.is_ok()));
    }

    /// As many as may make something of records do: another waits before it takes memory for more.
    #[tokio::test]
    async fn no_more_parts_are_made_at_a_time_than_there_are_places() {
        let dir = tempfile::tempdir().unwrap();
        let disks = disks::open(&[dir.path().to_owned()], &Options::default()).unwrap();
        let layouts = Layouts::new(&mut Registry::default(), &disks, 1 << 20);
        let budget = Budget::new(1 << 20);
        let all = Arc::clone(&layouts.answering).acquire_many_owned(ANSWERING_COUNT_MAX as u32).await.unwrap();
        let request = ReadLayout { window_len: 100, ..ReadLayout::default() };
        let known = known(&budget);
        let record_len = budget.used_len();
        let mut made = std::pin::pin!(layouts.part(known, request, Wish::All));
        let is_pending = std::future::poll_fn(|context| Poll::Ready(made.as_mut().poll(context).is_pending())).await;
        assert!(is_pending);
        assert_eq!(budget.used_len(), record_len);
        drop(all);
        assert!(made.await.is_ok());
    }
}
