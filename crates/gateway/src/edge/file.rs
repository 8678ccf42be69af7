//! A file that was opened at the edge: one content, read from what is kept, and from upstream where that ends.

use super::asking::Edge;
use super::kept::Origin;
use super::remembered::{Said, is_refusal};
use super::upstream::Upstream;
use client::{Client, Error, RangeRead, Reader, Result};
use edge::Content;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::sync::Mutex;
use types::Millis;

/// How long what the store said of an open file counts for further reads of it. A program that opens a file and reads
/// on waits for no look at it; one that keeps it open learns so late that it was changed.
pub(crate) const LOOK_EACH: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct EdgeFile {
    edge: Arc<Edge>,
    client: Client,
    path: String,
    len: u64,
    /// `None`: it is being written, or empty: it is read past the cache.
    content: Option<Content>,
    /// Of the opening. `None`: the link was down then, or nobody has read for long; then it is opened anew for what is
    /// not kept.
    reader: std::sync::Mutex<Option<Arc<Reader>>>,
    /// Held by who opens it anew, for all who wait.
    reopening: Mutex<()>,
    look: Mutex<Look>,
    /// When the store said this, if that was before the link went down.
    kept_since: Option<Millis>,
}

/// The last look at the file.
#[derive(Debug)]
struct Look {
    at: Option<Duration>,
    is_changed: bool,
}

fn content_of(reader: &Reader) -> Option<Content> {
    reader.content().map(|it| Content::new(&it.pool, it.block, it.generation, it.len))
}

impl EdgeFile {
    /// As the store says now.
    pub(super) fn of_reader(edge: Arc<Edge>, client: Client, path: &str, reader: Reader) -> Self {
        let content = content_of(&reader);
        let (len, at) = (reader.len(), Some(edge.link.now()));
        let file = Self::new(edge, client, path, len, content, at);
        *file.lock_reader() = Some(Arc::new(reader));
        file
    }

    /// As the store said before the link went down.
    pub(super) fn of_memory(edge: Arc<Edge>, client: Client, path: &str, content: Content, since: Millis) -> Self {
        let mut file = Self::new(edge, client, path, content.len, Some(content), None);
        file.kept_since = Some(since);
        file
    }

    fn new(
        edge: Arc<Edge>,
        client: Client,
        path: &str,
        len: u64,
        content: Option<Content>,
        at: Option<Duration>,
    ) -> Self {
        let look = Mutex::new(Look { at, is_changed: false });
        let (path, reader, reopening) = (path.to_owned(), std::sync::Mutex::default(), Mutex::default());
        Self { edge, client, path, len, content, reader, reopening, look, kept_since: None }
    }

    /// Nobody has read for long: what only a reader takes, places of blocks and files of replicas, is given back.
    /// False: without it there would be no reading on.
    pub(crate) fn rest(&self) -> bool {
        if self.content.is_some() {
            drop(self.lock_reader().take());
        }
        self.content.is_some()
    }

    fn reader(&self) -> Option<Arc<Reader>> {
        self.lock_reader().clone()
    }

    /// Nothing is left half done while it is held.
    fn lock_reader(&self) -> std::sync::MutexGuard<'_, Option<Arc<Reader>>> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn content(&self) -> Option<Content> {
        self.content
    }

    pub(crate) fn kept_since(&self) -> Option<Millis> {
        self.kept_since
    }

    pub(crate) async fn read_at(self: &Arc<Self>, offset: u64, dest: &mut [u8]) -> Result<usize> {
        let there = usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let wanted = dest.len().min(there);
        self.read_ranges(&mut [RangeRead { offset, dest: &mut dest[..wanted] }]).await?;
        Ok(wanted)
    }

    pub(crate) async fn read_ranges(self: &Arc<Self>, reads: &mut [RangeRead<'_>]) -> Result<()> {
        RangeRead::must_lie_within(reads, self.len)?;
        match self.content {
            Some(content) => self.edge.kept.read(content, reads, self).await,
            None => self.fetch(reads).await,
        }
    }

    /// Whether the path still names these bytes, as far as the store can be asked. What was said a moment ago counts.
    pub(crate) async fn is_the_same(&self) -> Result<bool> {
        let mut look = self.look.lock().await;
        let now = self.edge.link.now();
        if look.is_changed || look.at.is_some_and(|at| now.saturating_sub(at) < LOOK_EACH) {
            return Ok(!look.is_changed);
        }
        match self.ask().await {
            None if !self.edge.is_believed(&self.client) => return Err(self.edge.link.refusal()),
            // Nobody can say; the next look is due at once.
            None => return Ok(true),
            Some(Ok(reader)) => look.is_changed = !self.is_of(&reader).await,
            Some(Err(Error::NotFound)) => look.is_changed = true,
            Some(Err(error)) => {
                // Whom the store refuses has to open it anew, also where the link is down by then.
                look.is_changed = is_refusal(&error);
                return Err(error);
            }
        }
        look.at = Some(now);
        if look.is_changed {
            tracing::info!(path = self.path, "a file was changed while it was read");
        }
        Ok(!look.is_changed)
    }

    /// What the path names now. `None`: the link is down.
    async fn ask(&self) -> Option<Result<Reader>> {
        let asked = self.edge.remembered.ask();
        let opened = self.edge.link.ask(self.client.open_pinned(&self.path)).await?;
        let said = opened.as_ref().map(|reader| Said::Content(content_of(reader)));
        self.edge.learn(asked, &self.client, &self.path, said).await;
        Some(opened)
    }

    async fn is_of(&self, reader: &Reader) -> bool {
        let content = content_of(reader);
        let before = match (self.reader(), self.content) {
            (Some(before), None) => before,
            _ => return content == self.content,
        };
        // Of one that is written on, or was closed since, the bytes of before stay where they are.
        match (before.file_id().await, reader.file_id().await) {
            _ if self.len == 0 => true,
            (Some(before), Some(now)) => before == now && reader.len() >= self.len,
            _ => content.is_none() && reader.len() >= self.len,
        }
    }

    /// Asked for each time: a window that this file has in memory may be another's later.
    async fn upstream(&self, content: Content) -> Result<Arc<Upstream>> {
        let (upstreams, user, link) = (&self.edge.upstreams, self.client.user(), &self.edge.link);
        if let Some(known) = upstreams.known(user, content, link.now()) {
            return Ok(known);
        }
        let reader = match self.reader() {
            Some(reader) => reader.again(),
            None => {
                let _turn = self.reopening.lock().await;
                // Another one may have opened it meanwhile.
                if let Some(known) = upstreams.known(user, content, link.now()) {
                    return Ok(known);
                }
                self.reopen().await?
            }
        };
        Ok(upstreams.of(user, content, &self.path, reader, link.now()))
    }

    /// Of a file that was opened while the link was down, or that nobody has read for long.
    async fn reopen(&self) -> Result<Reader> {
        let reader = self.ask().await.ok_or_else(|| self.edge.link.refusal())??;
        match self.is_of(&reader).await {
            true => Ok(reader),
            false => Err(Error::Invalid("the file was changed since it was opened".into())),
        }
    }

    async fn fetch_content(&self, content: Content, reads: &mut [RangeRead<'_>]) -> Result<()> {
        let upstream = self.upstream(content).await?;
        match upstream.fetch(reads).await {
            // Whoever opened it first knew it by another name, which it may have lost since.
            Err(Error::NotFound) if *upstream.path != *self.path => {
                self.edge.upstreams.forget(self.client.user(), content, &upstream);
                self.upstream(content).await?.fetch(reads).await
            }
            fetched => fetched,
        }
    }
}

impl Origin for Arc<EdgeFile> {
    async fn fetch(&self, reads: &mut [RangeRead<'_>]) -> Result<()> {
        let link = &self.edge.link;
        if !link.is_up() {
            return Err(link.refusal());
        }
        let asked = self.edge.remembered.ask();
        let fetched = match (self.content, self.reader()) {
            (Some(content), _) => self.fetch_content(content, reads).await,
            (None, Some(reader)) => reader.read_ranges(reads).await,
            (None, None) => Err(Error::Internal("a file of no content was opened without the store".into())),
        };
        if let Err(error) = &fetched {
            self.edge.learn(asked, &self.client, &self.path, Err(error)).await;
        }
        link.note(fetched).await.unwrap_or_else(|| Err(link.refusal()))
    }
}
