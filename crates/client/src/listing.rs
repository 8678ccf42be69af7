//! A directory, page by page, in the order of its names' bytes.

use crate::client::Client;
use crate::error::{Error, Result};
use crate::status::Status;
use bytes::Bytes;
use hdfs::proto;
use types::excerpt;

/// Entries that come as they are asked for; a directory of a million names takes the memory of one page.
#[derive(Debug)]
pub struct Listing {
    client: Client,
    path: String,
    page: std::vec::IntoIter<Status>,
    start_after: Bytes,
    more: bool,
}

impl Listing {
    /// Fetches the first page, so that a path that does not exist is an error here. A file lists itself, with an empty
    /// name.
    pub(crate) async fn open(client: Client, path: String) -> Result<Self> {
        let mut listing = Self { client, path, page: Vec::new().into_iter(), start_after: Bytes::new(), more: true };
        if !listing.fetch().await? {
            return Err(Error::NotFound);
        }
        Ok(listing)
    }

    pub async fn next(&mut self) -> Result<Option<Status>> {
        loop {
            if let Some(entry) = self.page.next() {
                return Ok(Some(entry));
            }
            // A directory that goes away between two pages has no further entries.
            if !self.more || !self.fetch().await? {
                return Ok(None);
            }
        }
    }

    /// All that is left, for callers that need it whole.
    pub async fn collect(mut self) -> Result<Vec<Status>> {
        let mut entries = Vec::new();
        while let Some(entry) = self.next().await? {
            entries.push(entry);
        }
        Ok(entries)
    }

    /// False if there is no such directory.
    async fn fetch(&mut self) -> Result<bool> {
        let request = proto::GetListingRequestProto {
            src: self.path.clone(),
            start_after: self.start_after.clone(),
            need_location: false,
        };
        let answer: proto::GetListingResponseProto = self.client.call("getListing", &request).await?;
        let Some(page) = answer.dir_list else {
            self.more = false;
            return Ok(false);
        };
        // A page without entries cannot be followed by another: there is no name to go on from.
        self.more = page.remaining_entries > 0 && !page.partial_listing.is_empty();
        if let Some(last) = page.partial_listing.last() {
            self.start_after = last.path.clone();
        }
        let page: Vec<Status> = page.partial_listing.into_iter().map(Status::from_proto).collect();
        if let Some(entry) = page.iter().find(|entry| !is_name(entry, page.len())) {
            return Err(self.client.not_understood(format!("a listing with the name {}", excerpt(&entry.name))));
        }
        self.page = page.into_iter();
        Ok(true)
    }
}

/// Whether an entry of a page of so many is below the path that was listed. Callers append its name to paths, of this
/// machine also.
fn is_name(entry: &Status, count: usize) -> bool {
    match &*entry.name {
        "" => count == 1 && !entry.is_dir(),
        "." | ".." => false,
        name => !name.contains(['/', '\0']),
    }
}
