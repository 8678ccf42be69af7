//! A gateway near its readers: what they read is kept here, and comes from the store far away once.
//!
//! ```text
//! HTTP, root:// ──▶ look: may he, and which bytes are these? ── one flight ──▶ the store
//!                    │
//!                    └─▶ [`EdgeFile`] ──▶ [`kept`] ── memory │ disk │ others' flights
//!                                           └─ what nobody has ──▶ [`upstream`], reading ahead ──▶ the store
//! ```
//!
//! Promise: a file that is opened has the bytes that the store named at that moment, or an answer of before, said to be
//! such, while the [`link`] is down. Nobody reads what the store did not let him open. A refusal of whatever was asked
//! is learned from. What is kept is bounded.
//!
//! Why it is so is explained in docs/adr/0038.

mod belief;
mod disk;
mod file;
mod flight;
mod kept;
mod link;
mod remembered;
mod room;
#[cfg(test)]
pub(crate) mod scripted;
mod tally;
#[cfg(test)]
mod tests;
mod upstream;

use crate::try_again::always_changing;
use belief::{Asking, Belief};
use bytes::Bytes;
use client::{Client, Error, ErrorKind, Listing, Options, Refused, Result, Status, Store};
use edge::{Asked, EXTENT_COST, Limits};
pub(crate) use file::EdgeFile;
#[cfg(test)]
pub(crate) use file::LOOK_EACH;
use futures_util::future::join;
use hdfs::exception;
use hdfs::proto::GetFileInfoResponseProto;
use io::TaskGroup;
use kept::{Kept, QueueLimits, QueueUsage, UNWRITTEN_LEN_MAX};
use link::Link;
use prost::Message;
use remembered::{Opening, Remembered, Said};
use std::path::PathBuf;
use std::sync::{Arc, Weak};
pub(crate) use tally::Tally;
use upstream::Upstreams;

/// What an edge may take.
#[derive(Clone, Debug)]
pub struct EdgeConfig {
    /// Where pieces outlive the process. `None`: they are in memory alone.
    pub cache_dir: Option<PathBuf>,
    /// Bytes on the disk.
    pub cache_len: u64,
    /// Bytes of memory, for all of it.
    pub memory: u64,
}

/// What the memory is for, in parts of 32: pieces, those that wait for the disk, those that are fetched and who waits
/// for that, the index of the disk with openings, layouts, and reading ahead. Guesses, but that a window of 32 MiB is
/// to fit the last part of 128.
const MEMORY_PARTS: u64 = 32;
const PIECES_PARTS: u64 = 8;
const UNWRITTEN_PARTS: u64 = 4;
const FETCHING_PARTS: u64 = 2;
const WAITING_PARTS: u64 = 1;
const INDEX_PARTS: u64 = 5;
const LAYOUT_PARTS: u64 = 4;
const AHEAD_PARTS: u64 = 8;
const PARTS: [u64; 7] =
    [PIECES_PARTS, UNWRITTEN_PARTS, FETCHING_PARTS, WAITING_PARTS, INDEX_PARTS, LAYOUT_PARTS, AHEAD_PARTS];
const _: () = {
    let (mut sum, mut at) = (0, 0);
    while at < PARTS.len() {
        sum += PARTS[at];
        at += 1;
    }
    assert!(sum == MEMORY_PARTS);
};
/// Of the part of the index, for openings that are remembered for when the link is down: with 1 GB some 19 000 of usual
/// paths.
const MEMORY_PER_OPENINGS: u64 = 64;
const _: () = assert!(MEMORY_PARTS / INDEX_PARTS < MEMORY_PER_OPENINGS);
/// Bytes of a segment: what goes from the disk goes by so much, and each holds a file open.
const SEGMENT_LEN_MIN: u64 = 2 << 20;
const SEGMENT_COUNT: u64 = 256;
/// Times a file is looked up anew that is replaced while it is opened.
const OPEN_COUNT_MAX: usize = 3;

/// What a path names.
#[derive(Debug)]
pub(crate) struct Looked {
    pub(crate) status: Status,
    /// `None`: no file.
    pub(crate) file: Option<EdgeFile>,
}

#[derive(Debug)]
pub(crate) struct Edge {
    kept: Kept,
    remembered: Remembered,
    upstreams: Upstreams,
    link: Arc<Link>,
    belief: Belief,
    tally: Arc<Tally>,
}

impl EdgeConfig {
    fn limits(&self) -> Limits {
        let disk_len = if self.cache_dir.is_some() { self.cache_len } else { 0 };
        Limits {
            memory_len: self.part(PIECES_PARTS),
            disk_len,
            segment_len: (disk_len / SEGMENT_COUNT).max(SEGMENT_LEN_MIN).min(disk_len),
            disk_extent_count: ((self.part(INDEX_PARTS) - self.openings_len()) / EXTENT_COST) as usize,
        }
    }

    fn queue_limits(&self) -> QueueLimits {
        QueueLimits {
            fetching_len: self.part(FETCHING_PARTS),
            waiting_len: self.part(WAITING_PARTS),
            unwritten_len: self.part(UNWRITTEN_PARTS).min(UNWRITTEN_LEN_MAX),
        }
    }

    fn openings_len(&self) -> u64 {
        self.memory / MEMORY_PER_OPENINGS
    }

    fn part(&self, parts: u64) -> u64 {
        self.memory / MEMORY_PARTS * parts
    }

    /// What its client does differently.
    pub(crate) fn options(&self, options: Options) -> Options {
        let profile_dir = self.cache_dir.as_ref().map(|dir| dir.join("profiles"));
        Options { profile_dir, layout_memory: self.part(LAYOUT_PARTS), ..options }
    }
}

impl Edge {
    /// Takes what an earlier process left. The store need not be up.
    pub(crate) async fn start(
        config: &EdgeConfig,
        store: &Store,
        user: &str,
        tasks: TaskGroup,
    ) -> std::io::Result<Arc<Self>> {
        let tally = Arc::new(Tally::default());
        let (dir, limits, queues) = (config.cache_dir.clone(), config.limits(), config.queue_limits());
        let of_kept = Arc::clone(&tally);
        let kept = io::task::blocking(move || Kept::open(dir.as_deref(), limits, queues, of_kept)).await?;
        let usage = kept.usage();
        tracing::info!(bytes = usage.disk_len, pieces = usage.extent_count, "what is kept was found");
        let edge = Arc::new(Self {
            kept,
            remembered: Remembered::new(config.openings_len()),
            upstreams: Upstreams::new(config.part(AHEAD_PARTS), Arc::clone(&tally)),
            link: Link::new(store.clone(), user, tasks.clone(), Arc::clone(&tally)),
            belief: Belief::new(store.clone(), user),
            tally,
        });
        tasks.spawn_detached("belief", keep_asking_for_belief(Arc::downgrade(&edge)));
        Ok(edge)
    }

    /// What a path names, and the file to be read: status, permission, contents and places in one flight. While the
    /// link is down, as this user was told before.
    pub(crate) async fn look(self: &Arc<Self>, client: &Client, path: &str) -> Result<Looked> {
        for _ in 0..OPEN_COUNT_MAX {
            let asking = async {
                let (status, reader) = join(client.existing(path), client.open_pinned(path)).await;
                let status = status?;
                match status.is_dir() {
                    true => Ok((status, None)),
                    false => Ok((status, Some(reader?))),
                }
            };
            let asked = self.remembered.ask();
            let (status, reader) = match self.link.ask(asking).await {
                None => return self.remembered(client, path),
                Some(Err(error)) => {
                    self.learn(asked, client, path, Err(&error)).await;
                    return Err(error);
                }
                Some(Ok(answer)) => answer,
            };
            let Some(reader) = reader else {
                self.learn(asked, client, path, Ok(Said::Content(None))).await;
                return Ok(Looked { status, file: None });
            };
            // Both answers are about the same file, or one is of before a change.
            let id = reader.file_id().await;
            if reader.content().is_some() && reader.len() != status.len || id.is_some_and(|id| id != status.id) {
                continue;
            }
            self.tally.validated_count.add(1);
            let file = EdgeFile::of_reader(Arc::clone(self), client.clone(), path, reader);
            let said = match file.content() {
                Some(content) => {
                    Said::Opening(Box::new(Opening { status: status.clone(), content, at: self.link.wall() }))
                }
                None => Said::Content(None),
            };
            self.learn(asked, client, path, Ok(said)).await;
            return Ok(Looked { status, file: Some(file) });
        }
        Err(always_changing())
    }

    /// As [`Self::look`], of who does not want to read it.
    pub(crate) async fn status(self: &Arc<Self>, client: &Client, path: &str) -> Result<Status> {
        let asked = self.remembered.ask();
        match self.link.ask(client.existing(path)).await {
            Some(answer) => {
                self.learn(asked, client, path, answer.as_ref().map(|status| Said::Status(status.into()))).await;
                answer
            }
            None => Ok(self.remembered(client, path)?.status),
        }
    }

    fn remembered(self: &Arc<Self>, client: &Client, path: &str) -> Result<Looked> {
        let opening = self.remembered.opening(client.user(), path).filter(|_| self.is_believed(client));
        let Some(Opening { status, content, at }) = opening else {
            self.tally.refused_count.add(1);
            return Err(self.link.refusal());
        };
        self.tally.unvalidated_count.add(1);
        let file = EdgeFile::of_memory(Arc::clone(self), client.clone(), path, content, at);
        Ok(Looked { status, file: Some(file) })
    }

    /// As [`Self::status`], for a client of HDFS, with the answer as it came.
    pub(crate) async fn forward_status(
        &self,
        client: &Client,
        path: &str,
        request: Bytes,
    ) -> Result<Result<Bytes, Refused>> {
        let asked = self.remembered.ask();
        let answer = self.ask(client.forward("getFileInfo", request)).await?;
        match &answer {
            Ok(bytes) => {
                // What cannot be read says nothing.
                if let Ok(message) = GetFileInfoResponseProto::decode(bytes.clone()) {
                    let said = message.fs.as_ref().map(|status| Said::Status(status.into()));
                    self.learn(asked, client, path, said.ok_or(&Error::NotFound)).await;
                }
            }
            Err(refused) => self.learn_refusal(asked, client, path, refused).await,
        }
        Ok(answer)
    }

    /// Any other call of a client of HDFS, about a path if it is about one: a refusal is learned from.
    pub(crate) async fn forward(
        &self,
        client: &Client,
        method: &str,
        path: Option<&str>,
        request: Bytes,
    ) -> Result<Result<Bytes, Refused>> {
        let asked = self.remembered.ask();
        let answer = self.ask(client.forward(method, request)).await?;
        if let (Err(refused), Some(path)) = (&answer, path) {
            self.learn_refusal(asked, client, path, refused).await;
        }
        Ok(answer)
    }

    /// What a directory has. What is said of each name is not learned from, unless the directory is refused.
    pub(crate) async fn list(&self, client: &Client, path: &str) -> Result<Listing> {
        let asked = self.remembered.ask();
        let listing = self.ask(client.list(path)).await;
        if let Err(error) = &listing {
            self.learn(asked, client, path, Err(error)).await;
        }
        listing
    }

    async fn learn_refusal(&self, asked: Asked, client: &Client, path: &str, refused: &Refused) {
        let error = match refused.class.as_str() {
            exception::ACCESS_CONTROL | exception::AUTHORIZATION => Error::Denied(String::new()),
            exception::FILE_NOT_FOUND => Error::NotFound,
            exception::PARENT_NOT_DIRECTORY => Error::NotADirectory,
            _ => return,
        };
        self.learn(asked, client, path, Err(&error)).await;
    }

    /// Who proves nothing and is refused hears so once it is known whether it was for that.
    async fn learn(&self, asked: Asked, client: &Client, path: &str, answer: Result<Said<'_>, &Error>) {
        let is_denied = answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::Denied);
        self.remembered.learn(asked, client.user(), path, answer);
        if is_denied && client.is_without_proof() {
            self.belief.doubt();
            // While it cannot be asked, it stays in doubt.
            if let Err(error) = self.believes_names().await {
                tracing::debug!(%error, "the store does not say whether it believes names");
            }
        }
    }

    /// Whether the store believes names that nobody has proven. While it cannot be asked, as it said before.
    pub(crate) async fn believes_names(&self) -> Result<bool> {
        if let Some(believes) = self.belief.known(self.link.now()) {
            return Ok(believes);
        }
        let came = self.belief.asking(self.link.now());
        let _turn = self.belief.turn().await;
        let now = self.link.now();
        // Another one may have asked meanwhile. Who was refused since then waits for an answer of his own: nobody else
        // does, and so nobody waits for more than two.
        if let Some(believes) = self.belief.known(now).or_else(|| self.belief.answered_since(came)) {
            return Ok(believes);
        }
        let asking = self.belief.asking(now);
        match self.link.ask(self.belief.ask()).await {
            Some(answer) => {
                let believes = answer?;
                self.learn_belief(asking, believes);
                // A later question may have been answered before this one.
                Ok(believes && self.belief.is_held())
            }
            None => self.belief.last().ok_or_else(|| self.link.refusal()),
        }
    }

    /// The store has asked for a proof.
    pub(crate) fn believe_no_names(&self) {
        self.learn_belief(self.belief.asking(self.link.now()), false);
    }

    fn learn_belief(&self, asking: Asking, believes: bool) {
        if self.belief.learn(asking, believes) {
            tracing::info!("the store believes no names; what it said to those who proved nothing counts no more");
            self.remembered.forget_all();
        }
    }

    /// Whether what was said to this user before still counts, as far as is known.
    fn is_believed(&self, client: &Client) -> bool {
        !client.is_without_proof() || self.belief.last() == Some(true)
    }

    /// Any other question to the store.
    pub(crate) async fn ask<T>(&self, asking: impl Future<Output = Result<T>>) -> Result<T> {
        self.link.ask(asking).await.unwrap_or_else(|| Err(self.link.refusal()))
    }

    pub(crate) fn is_up(&self) -> bool {
        self.link.is_up()
    }

    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    pub(crate) fn usage(&self) -> edge::Usage {
        self.kept.usage()
    }

    pub(crate) fn queues(&self) -> QueueUsage {
        self.kept.queues()
    }

    /// Writes what waits for the disk, and keeps what was learned. Readers go on without.
    pub(crate) async fn stop(self: Arc<Self>) {
        self.upstreams.clear();
        io::task::blocking(move || self.kept.close()).await;
    }
}

/// As long as names are gone by, so that a store that begins to ask for proofs is found out before the link goes down.
async fn keep_asking_for_belief(edge: Weak<Edge>) {
    loop {
        tokio::time::sleep(belief::LOOK_EACH).await;
        let Some(edge) = edge.upgrade() else { return };
        if edge.belief.is_held()
            && let Err(error) = edge.believes_names().await
        {
            tracing::debug!(%error, "the store does not say whether it believes names");
        }
    }
}
