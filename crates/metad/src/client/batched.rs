//! `getBatchedListing`: pages of several directories in one answer.
//!
//! ```text
//! startAfter, which only this server reads:   0        4
//!                                             ┌────────┬──────────────────────────────────┐
//!                                             │ path   │ name: go on behind it; empty: at │
//!                                             │ u32    │ the beginning of this path       │
//!                                             └────────┴──────────────────────────────────┘
//! ```
//!
//! Promise: an unlistable path gets an error of its own, and the others are listed. The answer is about as long as a
//! page of one directory.

use super::listing::page;
use crate::core::{Core, find_path};
use crate::refusal;
use crate::session::Session;
use hdfs::Exception;
use hdfs::exception::FILE_NOT_FOUND;
use hdfs::proto::*;
use std::sync::Arc;
use types::limits::LISTING_PAGE_COUNT;

/// HDFS: `dfs.batched.ls.limit`.
const PATH_COUNT_MAX: usize = 100;

pub(super) async fn get_batched_listing(
    core: &Arc<Core>,
    session: &Session,
    request: GetBatchedListingRequestProto,
) -> Result<GetBatchedListingResponseProto, Exception> {
    if request.paths.len() > PATH_COUNT_MAX {
        let message = format!("Too many source paths ({} > {PATH_COUNT_MAX})", request.paths.len());
        return Err(refusal::illegal(message));
    }
    let place = Place::decode(&request.start_after, request.paths.len())?;
    let (its_core, its_session) = (Arc::clone(core), session.clone());
    core.walk_patiently(session, move || Ok(run(&its_core, &its_session, &request, place))).await
}

/// Where the next page begins.
struct Place {
    path: usize,
    after: Vec<u8>,
}

impl Place {
    fn decode(bytes: &[u8], path_count: usize) -> Result<Self, Exception> {
        if bytes.is_empty() {
            return Ok(Self { path: 0, after: Vec::new() });
        }
        let place = bytes.split_first_chunk().map(|(path, after)| (u32::from_be_bytes(*path) as usize, after));
        match place {
            Some((path, after)) if path < path_count => Ok(Self { path, after: after.to_vec() }),
            _ => Err(refusal::illegal("startAfter does not come from a listing of these paths")),
        }
    }

    fn encode(&self) -> Vec<u8> {
        assert!(self.path < PATH_COUNT_MAX, "the next page is of a path that was named: {}", self.path);
        let mut bytes = (self.path as u32).to_be_bytes().to_vec();
        bytes.extend_from_slice(&self.after);
        bytes
    }
}

fn run(
    core: &Core,
    session: &Session,
    request: &GetBatchedListingRequestProto,
    from: Place,
) -> GetBatchedListingResponseProto {
    let (mut listings, mut count, mut next) = (Vec::new(), 0, None);
    let mut after = from.after;
    for (number, text) in request.paths.iter().enumerate().skip(from.path) {
        if count >= LISTING_PAGE_COUNT {
            next = Some(Place { path: number, after: Vec::new() });
            break;
        }
        let listed = list(core, session, text, &std::mem::take(&mut after), request.need_location);
        let mut listing = BatchedDirectoryListingProto { parent_idx: number as u32, ..Default::default() };
        match listed {
            Ok(found) => {
                count += weight(&found);
                if found.remaining_entries > 0 {
                    assert!(!found.partial_listing.is_empty(), "a page is empty, and more are to come: {text:?}");
                    let last = found.partial_listing.last().map(|status| status.path.to_vec());
                    next = Some(Place { path: number, after: last.unwrap_or_default() });
                }
                listing.partial_listing = found.partial_listing;
            }
            Err(refused) => {
                let (class_name, message) = (refused.class.into(), Some(refused.message));
                listing.exception = Some(RemoteExceptionProto { class_name, message });
            }
        }
        listings.push(listing);
        if next.is_some() {
            break;
        }
    }
    let start_after = next.as_ref().map(Place::encode).unwrap_or_default();
    GetBatchedListingResponseProto { listings, has_more: next.is_some(), start_after: start_after.into() }
}

/// Blocks count as entries do: a file has up to a hundred thousand, and may be named in each path.
fn weight(listing: &DirectoryListingProto) -> usize {
    let locations = listing.partial_listing.iter().filter_map(|status| status.locations.as_ref());
    listing.partial_listing.len() + locations.map(|located| located.blocks.len()).sum::<usize>()
}

fn list(
    core: &Core,
    session: &Session,
    text: &str,
    after: &[u8],
    with_locations: bool,
) -> Result<DirectoryListingProto, Exception> {
    let absent = || Exception::new(FILE_NOT_FOUND, format!("Path {text} does not exist"));
    let path = find_path("getBatchedListing", text)?.ok_or_else(absent)?;
    page(core, session, &path, after, with_locations)?.ok_or_else(absent)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One file with many blocks, named in each of a hundred paths, would be an answer of gigabytes.
    #[test]
    fn blocks_fill_a_page_as_entries_do() {
        let located =
            |count| LocatedBlocksProto { blocks: vec![LocatedBlockProto::default(); count], ..Default::default() };
        let file = |count| HdfsFileStatusProto { locations: Some(located(count)), ..Default::default() };
        let listing = |partial_listing| DirectoryListingProto { partial_listing, remaining_entries: 0 };
        assert_eq!(weight(&listing(vec![file(LISTING_PAGE_COUNT)])), LISTING_PAGE_COUNT + 1);
        assert_eq!(weight(&listing(vec![HdfsFileStatusProto::default(); 3])), 3);
    }
}
