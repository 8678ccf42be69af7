//! A page of a directory.
//!
//! A page is the longest answer that clients often ask for: a thousand entries, each a message of its own. So it is
//! encoded entry by entry as the entries are read, on the thread that reads them, instead of as one message made first.

use super::answer::Encoded;
use crate::caller::Session;
use crate::core::{Core, find_path};
use crate::to_hdfs::{self, Locator};
use bytes::Bytes;
use hdfs::Exception;
use hdfs::listing::{Entry, PageWriter};
use hdfs::proto::*;
use namespace::read::{self, Listing, PageLimits};
use prost::Message;
use std::sync::Arc;
use types::FsPath;

pub(super) async fn get_listing(
    core: &Arc<Core>,
    session: &Session,
    request: GetListingRequestProto,
) -> Result<Encoded, Exception> {
    let absent = || Encoded(GetListingResponseProto { dir_list: None }.encode_to_vec().into());
    let Some(path) = find_path("getListing", &request.src)? else { return Ok(absent()) };
    // A page is a thousand rows, which may lie on a cold disk.
    let (its_core, its_session) = (Arc::clone(core), session.clone());
    let list = move || {
        let listing = listing(&its_core, &its_session, &path, &request.start_after, request.need_location)?;
        Ok(listing.map(|listing| encode(&its_core, &its_session, listing)))
    };
    Ok(core.walk(session, list).await?.map_or_else(absent, Encoded))
}

/// `None`: there is no such path. May wait for a disk.
pub(super) fn page(
    core: &Core,
    session: &Session,
    path: &FsPath,
    after: &[u8],
    with_locations: bool,
) -> Result<Option<DirectoryListingProto>, Exception> {
    let Some(listing) = listing(core, session, path, after, with_locations)? else { return Ok(None) };
    let (mut partial_listing, remaining_entries) = (Vec::with_capacity(listing.entries.len()), listing.remaining);
    each(core, session, listing, |entry| partial_listing.push(entry.into()));
    Ok(Some(DirectoryListingProto { partial_listing, remaining_entries }))
}

fn listing(
    core: &Core,
    session: &Session,
    path: &FsPath,
    after: &[u8],
    with_locations: bool,
) -> Result<Option<Listing>, Exception> {
    let limits = PageLimits::new(with_locations);
    let found = core.read_here(|rows| read::list(rows, &session.caller, path, after, limits))?;
    if let Some(listing) = &found {
        let count = listing.entries.len();
        assert!(count <= limits.entries, "a page of {path} has {count} entries");
        assert!(count > 0 || listing.remaining == 0, "a page of {path} is empty, and more are to come");
    }
    Ok(found)
}

fn encode(core: &Core, session: &Session, listing: Listing) -> Bytes {
    let mut page = PageWriter::new(listing.entries.len());
    let remaining = listing.remaining;
    each(core, session, listing, |entry| page.push(&entry));
    page.finish(remaining)
}

fn each(core: &Core, session: &Session, listing: Listing, mut take: impl FnMut(Entry<'_>)) {
    let host = session.host();
    let locator = Locator::new(core, &host);
    for entry in listing.entries {
        let blocks = entry.blocks.as_ref().map(|file| locator.located_blocks(core, file));
        take(to_hdfs::entry(&entry.status, blocks.as_ref()));
    }
}
