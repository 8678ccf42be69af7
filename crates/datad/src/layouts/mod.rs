//! Where the columns of a file lie (op 202): read beside the data, by whichever node has it, and kept.
//!
//! ```text
//! request ──▶ in memory? ──▶ on the disk? ──▶ one at a time for a file, few for all ──▶ ask the file ──▶ keep it
//!                  └─────────────┴──▶ has the asker tokens for the blocks it was made of? ──▶ the columns it wants
//! ```
//!
//! Promise: nobody learns of a file what its token does not let it read. A hostile file costs a bounded amount of
//! memory and time, once: what cannot be read is kept, too. Nothing here is needed for anything else: where there is
//! neither room nor time, the answer is that the node is busy.

mod asking;
mod entry;
mod recent;
mod shelf;
mod window;

use crate::connection::Connection;
use crate::data_service::DataService;
use crate::metad::Leader;
use crate::operations::Operation;
use asking::{Asking, Ended, NOT_SAID};
use disks::Disks;
use entry::{Entry, Key};
use metrics::{Counter, Registry};
use recent::Recent;
use shelf::Shelf;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::io::Result;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{Mutex, Semaphore};
use wire::layouts::{Answer, LayoutBlock, LayoutOutcome, ReadLayout, Wish};
use wire::{Status, delimited};
use xfer::answer::{self, Refusal, success};

/// Files asked at a time: each may take some hundred megabytes, and a thread.
const ASKING_COUNT_MAX: usize = 2;
/// Answers made of kept records at a time.
const ANSWERING_COUNT_MAX: usize = 4;
/// Requests that wait for their turn to ask; more are answered as busy.
const WAITING_COUNT_MAX: usize = 64;
/// How long one waits. A guess: less than it takes to do without.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// How long a file is asked at most. The slowest by purpose takes some seconds of a core.
const ASKING_MAX: Duration = Duration::from_secs(20);
/// Files that are told apart where each is to be asked once. Two that are not wait for each other.
const FILE_COUNT: usize = 16;

#[derive(Debug)]
pub(crate) struct Layouts {
    disks: Disks,
    recent: Recent,
    shelf: Arc<Shelf>,
    waiting: Semaphore,
    asking: Arc<Semaphore>,
    answering: Arc<Semaphore>,
    alone: [Mutex<()>; FILE_COUNT],
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
            waiting: Semaphore::new(WAITING_COUNT_MAX),
            asking: Arc::new(Semaphore::new(ASKING_COUNT_MAX)),
            answering: Arc::new(Semaphore::new(ANSWERING_COUNT_MAX)),
            alone: Default::default(),
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

    async fn answer(
        &self,
        service: &DataService,
        request: &ReadLayout,
        wish: Wish,
    ) -> std::result::Result<Answer, Refusal> {
        let Some(key) = Key::of(request) else { return Err(Refusal::error("it names no block")) };
        let entry = match self.known(service, request, key).await {
            Ok(entry) => entry,
            Err(Ended::Refused(refused)) => return Err(refused),
            Err(Ended::Answer(answer)) => {
                match answer {
                    Answer::NotHere { .. } => self.counts.not_here.inc(),
                    _ => self.counts.busy.inc(),
                };
                return Ok(answer);
            }
        };
        match entry.why_not() {
            Some(why_not) => Ok(why_not),
            None => Ok(self.of_record(entry, wish).await),
        }
    }

    /// What is known of the file, after it was asked if need be; or what is answered instead.
    async fn known(
        &self,
        service: &DataService,
        request: &ReadLayout,
        key: Key,
    ) -> std::result::Result<Arc<Entry>, Ended> {
        if let Some(known) = self.kept(service, request, key).await {
            return known;
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
        if let Some(known) = self.kept(service, request, key).await {
            return known;
        }
        let leader = self.leader.get();
        let asking = Asking { service, leader, request, place: Arc::new(place), touched: Vec::new() };
        let asked = tokio::time::timeout(ASKING_MAX, asking.run()).await;
        let entry = Arc::new(asked.unwrap_or_else(|_elapsed| Err(Ended::Answer(busy())))?);
        self.counts.asked.inc();
        self.keep(service, key, &entry).await;
        Ok(entry)
    }

    /// What is kept of the file, if it is the file that is asked for.
    async fn kept(
        &self,
        service: &DataService,
        request: &ReadLayout,
        key: Key,
    ) -> Option<std::result::Result<Arc<Entry>, Ended>> {
        let (entry, found) = match self.recent.get(key) {
            Some(entry) => (entry, Found::Memory),
            None => (self.on_disk(service, key).await?, Found::Disk),
        };
        for touched in &entry.touched {
            let overlaps = |block: &LayoutBlock| touched.offset < block.end() && block.offset < touched.end();
            let Some(place) = request.blocks.iter().position(overlaps) else {
                let not_here = Answer::NotHere { offset: touched.offset, len: touched.len };
                return Some(Err(Ended::Answer(not_here)));
            };
            if !touched.is(&request.blocks[place]) {
                return None;
            }
            let named = match service.admission.layout(request, place) {
                Ok(named) => named,
                Err(refused) => return Some(Err(Ended::Refused(refused))),
            };
            // Made when nobody was asked for tokens: by now the file has to be asked again.
            if touched.file == NOT_SAID && named.file().is_some() {
                return None;
            }
            if let Err(refused) = service.admission.must_cover(&named, touched.file) {
                return Some(Err(Ended::Refused(refused)));
            }
        }
        match found {
            Found::Memory => self.counts.in_memory.inc(),
            Found::Disk => {
                self.recent.put(key, Arc::clone(&entry));
                self.counts.on_disk.inc()
            }
        };
        Some(Ok(entry))
    }

    async fn on_disk(&self, service: &DataService, key: Key) -> Option<Arc<Entry>> {
        let (shelf, now) = (Arc::clone(&self.shelf), service.replicas.wall());
        let found = self.disks.for_disk(0, move |_| shelf.get(key, now)).await;
        found.ok().flatten().map(Arc::new)
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
    async fn of_record(&self, entry: Arc<Entry>, wish: Wish) -> Answer {
        let wanted = match wish {
            Wish::All => return Answer::Found(entry.bytes.clone()),
            Wish::Columns(columns) => layout::Wanted::Columns(columns),
            Wish::At(offsets) => layout::Wanted::At(offsets),
        };
        let turn = tokio::time::timeout(WAIT_MAX, Arc::clone(&self.answering).acquire_owned()).await;
        let Ok(Ok(place)) = turn else {
            self.counts.busy.inc();
            return busy();
        };
        let made = io::task::blocking(move || {
            let _place = place;
            let layout = layout::decode(&entry.bytes).map_err(|error| error.to_string())?;
            layout::encode(&layout.with_pieces_of(&wanted)).map_err(|error| error.to_string())
        });
        match made.await {
            Ok(record) => Answer::Found(record.into()),
            Err(text) => Answer::TooLarge(text),
        }
    }
}

fn busy() -> Answer {
    Answer::Busy("this node asks as many files for their layouts as it may; try another node".to_owned())
}

/// Serves one request. `Ok(true)`: the connection may carry another operation.
pub(crate) async fn serve(
    layouts: &Layouts,
    service: &DataService,
    connection: &mut Connection,
    request: ReadLayout,
) -> Result<std::result::Result<bool, Refusal>> {
    let counted = service.operations.begin(Operation::Layout, || service.now());
    let answered = match request.checked() {
        Ok(wish) => layouts.answer(service, &request, wish).await,
        Err(error) => Err(Refusal { status: Status::ERROR_INVALID, ..Refusal::error(error.to_string()) }),
    };
    let answer = match answered {
        Ok(answer) => answer.into_message(),
        Err(refused) => {
            counted.refused();
            return Ok(Err(refused));
        }
    };
    let Some(_memory) = service.budget.take_for_read(2 * answer.record.len() as u64) else {
        counted.refused();
        return Ok(Err(Refusal::error("no memory left for another read; try another node")));
    };
    layouts.counts.bytes.inc_by(answer.record.len() as u64);
    let mut bytes = answer::encode(success());
    delimited::put(&answer, &mut bytes);
    connection.send_within(&bytes, Duration::from_millis(service.limits.reader_stalled_ms)).await?;
    counted.done();
    if request.window_len > 0 && answer.outcome() == LayoutOutcome::Found {
        let record = answer.record;
        // All of it is a request for ranges, as if the reader had listed them.
        let ranges = io::task::blocking(move || window::ranges(request, &record)).await;
        return crate::ranges::serve(service, connection, ranges).await;
    }
    Ok(Ok(true))
}
