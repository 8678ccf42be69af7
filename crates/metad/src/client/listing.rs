//! A page of a directory.
//!
//! A page is the longest answer that clients often ask for: a thousand entries, each a message of its own. So entries
//! are encoded one by one as they are read, on the reading thread. No message of the whole page is built first.

use crate::answer::Encoded;
use crate::block_tokens::ReadTokens;
use crate::core::{Core, find_path};
use crate::pages::{Pages, Shown};
use crate::refusal;
use crate::session::Session;
use crate::to_hdfs::{self, Locator};
use bytes::Bytes;
use hdfs::Exception;
use hdfs::listing::{Entry, PageWriter};
use hdfs::proto::*;
use namespace::read::{self, Listing, PageExtent, PageLimits, TakePage};
use namespace::{FileBlocks, StatusRow};
use prost::Message;
use std::sync::Arc;
use types::{FsPath, InodeId};

pub(super) async fn get_listing(
    core: &Arc<Core>,
    session: &Session,
    request: GetListingRequestProto,
) -> Result<Encoded, Exception> {
    let absent = || Encoded(GetListingResponseProto { dir_list: None }.encode_to_vec().into());
    let Some(path) = find_path("getListing", &request.src)? else { return Ok(absent()) };
    // A page is a thousand rows, which may lie on a cold disk.
    let (its_core, its_session) = (Arc::clone(core), session.clone());
    let list = move || match request.need_location {
        true => located_page(&its_core, &its_session, &path, &request.start_after),
        false => plain_page(&its_core, &its_session, &path, &request.start_after),
    };
    Ok(core.walk_patiently(session, list).await?.map_or_else(absent, Encoded))
}

/// `None`: there is no such path. May wait for a disk.
pub(super) fn page(
    core: &Core,
    session: &Session,
    path: &FsPath,
    after: &[u8],
    with_locations: bool,
) -> Result<Option<DirectoryListingProto>, Exception> {
    let limits = PageLimits::new(with_locations);
    let listing = core.read_here(|rows| read::list(rows, &session.caller, path, after, limits))?;
    let Some(listing) = listing else { return Ok(None) };
    let (mut partial_listing, remaining_entries) = (Vec::with_capacity(listing.entries.len()), listing.remaining);
    each(core, session, listing, |entry| partial_listing.push(entry.into()))?;
    Ok(Some(DirectoryListingProto { partial_listing, remaining_entries }))
}

/// Entries go from the rows into the answer, or from an answer that has the same.
fn plain_page(core: &Core, session: &Session, path: &FsPath, after: &[u8]) -> Result<Option<Bytes>, Exception> {
    let view = core.machine.store().view();
    let commits = view.commits();
    let mut page =
        Plain { pages: &core.machine.pages, commits, writer: PageWriter::default(), read: None, last: Vec::new() };
    let end = read::list_each(&view, &session.caller, path, after, PageLimits::new(false), &mut page);
    let Some(end) = end.map_err(refusal::rows)?.map_err(refusal::namespace)? else { return Ok(None) };
    if let (Some(extent), Some(Read { directory, after, next })) = (end.extent, &page.read) {
        let shown = Shown { entries: page.writer.encoded(), extent, last: &page.last, next: next.as_deref() };
        page.pages.put((*directory, after), shown, commits);
    }
    Ok(Some(page.writer.finish(end.remaining)))
}

/// A page without locations.
struct Plain<'a> {
    pages: &'a Pages,
    /// Of the rows that are read.
    commits: u64,
    writer: PageWriter,
    read: Option<Read>,
    last: Vec<u8>,
}

/// What is read from the rows: a page of `directory` behind a name, and the first name behind it.
struct Read {
    directory: InodeId,
    after: Vec<u8>,
    next: Option<Vec<u8>>,
}

impl TakePage for Plain<'_> {
    fn known(&mut self, directory: InodeId, after: &[u8]) -> Option<PageExtent> {
        let Some(page) = self.pages.get(directory, after, self.commits) else {
            self.read = Some(Read { directory, after: after.to_vec(), next: None });
            return None;
        };
        self.writer.push_encoded(&page.entries);
        Some(page.extent)
    }

    fn take(&mut self, status: StatusRow<'_>, _: Option<FileBlocks>) {
        self.last.clear();
        self.last.extend_from_slice(status.name);
        self.writer.push(&to_hdfs::entry(status, None));
    }

    fn ends_before(&mut self, next: &[u8]) {
        if let Some(read) = &mut self.read {
            read.next = Some(next.to_vec());
        }
    }
}

/// Nodes are looked up when all rows are read: the lock of the leader is never waited for with a view open.
fn located_page(core: &Core, session: &Session, path: &FsPath, after: &[u8]) -> Result<Option<Bytes>, Exception> {
    let limits = PageLimits::new(true);
    let listing = core.read_here(|rows| read::list(rows, &session.caller, path, after, limits))?;
    let Some(listing) = listing else { return Ok(None) };
    let (mut page, remaining) = (PageWriter::default(), listing.remaining);
    each(core, session, listing, |entry| page.push(&entry))?;
    Ok(Some(page.finish(remaining)))
}

fn each(core: &Core, session: &Session, listing: Listing, mut take: impl FnMut(Entry<'_>)) -> Result<(), Exception> {
    let host = session.host();
    let locator = Locator::new(core, &host);
    for entry in listing.entries {
        // Who may list a directory may perhaps not read what is in it: as in HDFS, these blocks have no tokens.
        let blocks = entry.blocks.as_ref().map(|file| locator.located_blocks(core, file, ReadTokens::none()));
        take(to_hdfs::entry(entry.status.row(), blocks.transpose()?.as_ref()));
    }
    Ok(())
}
