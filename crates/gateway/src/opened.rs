//! A file that is read, and which version of it.

use crate::edge::EdgeFile;
use crate::try_again::always_changing;
use client::{Client, Error, RangeRead, Reader, Result, Status};
use edge::Content;
use std::sync::Arc;
use types::Millis;

/// Times a file is looked up anew that is replaced while it is opened.
const OPEN_COUNT_MAX: usize = 3;

#[derive(Debug)]
pub(crate) struct Opened {
    bytes: Bytes,
    /// Of before it was opened.
    pub(crate) status: Status,
}

/// Where they are read.
#[derive(Debug)]
enum Bytes {
    Store { client: Client, path: String, reader: Box<Reader> },
    Edge(Arc<EdgeFile>),
}

impl Opened {
    /// The file that `path` names, which had this status a moment ago.
    pub(crate) async fn of(client: Client, path: &str, mut status: Status) -> Result<Self> {
        for _ in 0..OPEN_COUNT_MAX {
            let reader = client.open_listed(path, &status).await?;
            // Of one that is being written, as long as it was when that began, there may be more.
            let is_same = reader.len() >= status.len && reader.file_id().await.is_none_or(|id| id == status.id);
            if is_same {
                let bytes = Bytes::Store { client, path: path.to_owned(), reader: Box::new(reader) };
                return Ok(Self { bytes, status });
            }
            status = client.existing(path).await?;
        }
        Err(always_changing())
    }

    /// As an edge has opened it.
    pub(crate) fn at_edge(file: EdgeFile, status: Status) -> Self {
        Self { bytes: Bytes::Edge(Arc::new(file)), status }
    }

    /// Bytes of the file, as of its opening.
    pub(crate) fn len(&self) -> u64 {
        match &self.bytes {
            Bytes::Store { reader, .. } => reader.len(),
            Bytes::Edge(file) => file.len(),
        }
    }

    /// Which bytes these are, if an edge can keep them.
    pub(crate) fn content(&self) -> Option<Content> {
        match &self.bytes {
            Bytes::Store { .. } => None,
            Bytes::Edge(file) => file.content(),
        }
    }

    /// When the store said which bytes these are, if it cannot be asked now. `None`: it was asked a moment ago.
    pub(crate) fn kept_since(&self) -> Option<Millis> {
        match &self.bytes {
            Bytes::Store { .. } => None,
            Bytes::Edge(file) => file.kept_since(),
        }
    }

    /// Nobody has read it for long: what it holds for readers is given back, and is there again once somebody reads.
    /// False: it would not be.
    pub(crate) fn rest(&self) -> bool {
        match &self.bytes {
            Bytes::Store { .. } => false,
            Bytes::Edge(file) => file.rest(),
        }
    }

    /// Fills `dest` from `offset`; fewer bytes only at the end of the file.
    pub(crate) async fn read_at(&self, offset: u64, dest: &mut [u8]) -> Result<usize> {
        match &self.bytes {
            Bytes::Store { reader, .. } => reader.read_at(offset, dest).await,
            Bytes::Edge(file) => file.read_at(offset, dest).await,
        }
    }

    /// As [`Self::read_at`], of who most likely goes on behind it.
    pub(crate) async fn read_on(&mut self, offset: u64, dest: &mut [u8]) -> Result<usize> {
        match &mut self.bytes {
            Bytes::Store { reader, .. } => {
                reader.seek(offset);
                reader.read(dest).await
            }
            Bytes::Edge(file) => file.read_at(offset, dest).await,
        }
    }

    /// Fills all of `reads`; an error if one reaches beyond the end of the file.
    pub(crate) async fn read_ranges(&self, reads: &mut [RangeRead<'_>]) -> Result<()> {
        match &self.bytes {
            Bytes::Store { reader, .. } => reader.read_ranges(reads).await,
            Bytes::Edge(file) => file.read_ranges(reads).await,
        }
    }

    /// Whether the path still names the file whose status was told, and that was neither cut nor written on since. If
    /// not, what was read may be of two versions. An edge goes by what the store said a moment ago.
    pub(crate) async fn is_the_same(&self) -> Result<bool> {
        let (client, path) = match &self.bytes {
            Bytes::Store { client, path, .. } => (client, path),
            Bytes::Edge(file) => return file.is_the_same().await,
        };
        let now = match client.existing(path).await {
            Err(Error::NotFound) => return Ok(false),
            now => now?,
        };
        let is_same = now.version() == self.status.version();
        if !is_same {
            tracing::info!(path, "a file was changed while it was read");
        }
        Ok(is_same)
    }

    /// Fails if it is another version by now.
    pub(crate) async fn must_be_the_same(&self) -> Result<()> {
        match self.is_the_same().await? {
            true => Ok(()),
            false => Err(Error::Invalid("the file was changed while it was read".into())),
        }
    }

    /// As [`Self::must_be_the_same`], in the middle of an answer, which may take minutes. An edge looks as often as it
    /// does at any open file; beside the data each look is a question, and the one at the end of the answer is enough.
    pub(crate) async fn may_go_on(&self) -> Result<()> {
        match &self.bytes {
            Bytes::Store { .. } => Ok(()),
            Bytes::Edge(_) => self.must_be_the_same().await,
        }
    }
}
