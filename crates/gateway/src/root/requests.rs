//! Requests that the store has to answer, one by one.

use super::file::{OpenFile, Opening, opened};
use super::not_done::NotDone;
use super::reads;
use super::shared::Common;
use super::status::info;
use client::{Error, ErrorKind, Kind, Status};
use futures_util::{StreamExt, TryStreamExt, stream};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;
use xroot::{
    Element, ErrorCode, FsPath, Handle, ListingText, Open, Refusal, Request, Session, Space, StreamId, TYPE_OF_NOTHING,
    Target, answer,
};

/// For a place for one more open file, while no session is idle that has some. A guess: clients wait for much longer.
const PLACE_TIME_MAX: Duration = Duration::from_secs(2);
/// Paths whose types are asked for at a time. A guess.
const STATUS_COUNT_MAX: usize = 16;

/// A request, and the files that it names.
#[derive(Debug)]
pub(super) enum Asked {
    Open { open: Open, handle: Handle, opener: watch::Sender<Option<Arc<OpenFile>>>, opening: Opening },
    Read { file: Opening, offset: u64, len: u32 },
    ReadPages { file: Opening, offset: u64, len: u32 },
    ReadVector { files: HashMap<Handle, Opening>, elements: Vec<Element> },
    StatOpen(Opening),
    Stat(FsPath),
    StatTypes(Vec<FsPath>),
    StatSpace,
    List { path: FsPath, with_status: bool },
    Locate(Option<FsPath>),
    QuerySpace,
    QueryStatistics,
}

impl Asked {
    /// Looks up what it names, and reserves a handle for what it opens, in the order in which requests came.
    pub(super) fn of(session: &mut Session<Opening>, request: Request) -> Result<Self, Refusal> {
        Ok(match request {
            Request::Open(open) => {
                let (opener, opening) = watch::channel(None);
                let handle = session.add_file(opening.clone())?;
                Self::Open { open, handle, opener, opening }
            }
            Request::Read { handle, offset, len } => Self::Read { file: session.file(handle)?.clone(), offset, len },
            Request::ReadPages { handle, offset, len } => {
                Self::ReadPages { file: session.file(handle)?.clone(), offset, len }
            }
            Request::ReadVector(elements) => {
                let mut files = HashMap::new();
                for Element { handle, .. } in &elements {
                    if !files.contains_key(handle) {
                        files.insert(*handle, session.file(*handle)?.clone());
                    }
                }
                Self::ReadVector { files, elements }
            }
            Request::Stat(Target::Open(handle)) => Self::StatOpen(session.file(handle)?.clone()),
            Request::Stat(Target::Path(path)) => Self::Stat(path),
            Request::StatTypes(paths) => Self::StatTypes(paths),
            Request::StatSpace => Self::StatSpace,
            Request::List { path, with_status } => Self::List { path, with_status },
            Request::Locate(path) => Self::Locate(path),
            Request::QuerySpace => Self::QuerySpace,
            Request::QueryStatistics => Self::QueryStatistics,
        })
    }

    /// The handle that was reserved, which is free again if the file cannot be opened.
    pub(super) fn reserved(&self) -> Option<(Handle, Opening)> {
        match self {
            Self::Open { handle, opening, .. } => Some((*handle, opening.clone())),
            _ => None,
        }
    }

    /// Bytes that it takes until its answer has room, where those are many.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::ReadVector { elements, .. } => elements.len() * Element::LEN,
            Self::List { .. } => xroot::limits::LISTING_PART_LEN_MAX,
            Self::StatTypes(paths) => paths.iter().map(|path| path.as_str().len() + size_of::<FsPath>()).sum(),
            _ => 0,
        }
    }
}

pub(super) async fn carry_out(common: &Common, stream: StreamId, asked: Asked) -> Result<(), NotDone> {
    let answered = match asked {
        Asked::Open { open, handle, opener, .. } => {
            let file = Arc::new(opened_at(common, open.path.as_str()).await?);
            let answered = open.answer(stream, handle, &file.info);
            opener.send_replace(Some(file));
            answered
        }
        Asked::Read { file, offset, len } => {
            return reads::read(common, stream, &*opened(file).await?, offset, len).await;
        }
        Asked::ReadPages { file, offset, len } => {
            return reads::read_pages(common, stream, &*opened(file).await?, offset, len).await;
        }
        Asked::ReadVector { files, elements } => return reads::read_vector(common, stream, files, &elements).await,
        Asked::StatOpen(file) => answer::text(stream, &opened(file).await?.info.line()),
        Asked::Stat(path) => {
            let status = common.reading().await?.existing(path.as_str()).await?;
            answer::text(stream, &info(&status).line())
        }
        Asked::StatTypes(paths) => {
            let reading = common.reading().await?;
            let asking = stream::iter(paths).map(async |path| reading.status(path.as_str()).await);
            let statuses: Vec<Option<Status>> = asking.buffered(STATUS_COUNT_MAX).try_collect().await?;
            let byte = |status: &Option<Status>| status.as_ref().map_or(TYPE_OF_NOTHING, |it| info(it).type_byte());
            answer::ok(stream, &statuses.iter().map(byte).collect::<Vec<u8>>())
        }
        Asked::StatSpace => answer::text(stream, &space(common).await?.line()),
        Asked::List { path, with_status } => return list(common, stream, path.as_str(), with_status).await,
        Asked::Locate(path) => {
            if let Some(path) = path {
                common.reading().await?.existing(path.as_str()).await?;
            }
            answer::location(stream, common.addr)
        }
        Asked::QuerySpace => answer::text(stream, &space(common).await?.words()),
        Asked::QueryStatistics => answer::text(stream, &common.shared.counts.as_xml(common.addr)),
    };
    Ok(common.outbox.send(answered).await?)
}

async fn opened_at(common: &Common, path: &str) -> Result<OpenFile, NotDone> {
    let too_many = || Refusal::new(ErrorCode::Overloaded, "as many files are open as there may be; try again later");
    let placing = timeout(PLACE_TIME_MAX, common.shared.files.share(&common.files, 1));
    let place = placing.await.ok().flatten().ok_or_else(too_many)?;
    let found = common.reading().await?.find(path).await?;
    match found.status.kind {
        Kind::File => {}
        Kind::Directory => return Err(Refusal::new(ErrorCode::IsDirectory, "it is a directory").into()),
        Kind::Symlink => return Err(Refusal::new(ErrorCode::Unsupported, "links are not followed").into()),
    }
    if let Some(what) = found.status.unusable {
        return Err(Refusal::new(ErrorCode::Unsupported, format!("{what} cannot be read")).into());
    }
    let opened = found.open(path).await?;
    Ok(OpenFile::new(opened, place))
}

/// Names, as they come.
async fn list(common: &Common, stream: StreamId, path: &str, with_status: bool) -> Result<(), NotDone> {
    let mut listing = common.reading().await?.list(path).await?;
    let mut text = ListingText::new(stream, with_status);
    while let Some(status) = listing.next().await? {
        if status.name.is_empty() {
            return Err(Refusal::new(ErrorCode::FsError, "it is not a directory").into());
        }
        if let Some(part) = text.push(&status.name, &info(&status)) {
            common.outbox.send(part).await?;
        }
    }
    Ok(common.outbox.send(text.finish()).await?)
}

async fn space(common: &Common) -> Result<Space, Error> {
    match common.reading().await?.stats().await {
        Ok(stats) => Ok(Space { capacity: stats.capacity, free: stats.remaining, used: stats.used }),
        Err(error) if error.kind() == ErrorKind::Denied => Ok(Space::default()),
        Err(error) => Err(error),
    }
}
