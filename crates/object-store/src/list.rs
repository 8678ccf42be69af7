//! Objects below a prefix: directories are walked, page by page, several at a time.
//!
//! Promise: memory is bounded however many objects there are: a directory is left where a page ends until all that the
//! page named was walked, so what waits is at most a page a level and a directory under way.

use crate::error::of_look;
use crate::{location, meta};
use client::{Client, Kind, Listing, Status};
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{self, BoxStream, FuturesUnordered, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ListResult, ObjectMeta, Result};
use std::collections::VecDeque;

/// Directories that are asked for at a time. A guess: far away, time is round trips.
const DIRECTORY_COUNT: usize = 16;
/// Entries taken of a directory before those below it come. The most that our server and HDFS's put on a page.
const PAGE_LEN: usize = 1000;

/// A directory that is walked; `listing` is `None` before the first page.
struct Directory {
    path: Path,
    listing: Option<Listing>,
}

struct Page {
    entries: Vec<(Path, Status)>,
    /// There may be more.
    rest: Option<Directory>,
}

/// Which directories are not worth a look.
type Worth = Box<dyn Fn(&Path) -> bool + Send>;

struct Walk {
    client: Client,
    worth: Worth,
    directory_count: usize,
    /// The last is the next: so what is deep down comes before what is beside it.
    waiting: Vec<Directory>,
    under_way: FuturesUnordered<BoxFuture<'static, Result<Page>>>,
    found: VecDeque<ObjectMeta>,
}

impl Walk {
    fn new(client: &Client, prefix: Path, directory_count: usize, worth: Worth) -> Self {
        let top = Directory { path: prefix, listing: None };
        Self {
            client: client.clone(),
            worth,
            directory_count,
            waiting: vec![top],
            under_way: FuturesUnordered::new(),
            found: VecDeque::new(),
        }
    }

    async fn next(&mut self) -> Result<Option<ObjectMeta>> {
        loop {
            if let Some(object) = self.found.pop_front() {
                return Ok(Some(object));
            }
            while self.under_way.len() < self.directory_count {
                let Some(directory) = self.waiting.pop() else { break };
                self.under_way.push(page(self.client.clone(), directory).boxed());
            }
            let Some(Page { entries, rest }) = self.under_way.try_next().await? else { return Ok(None) };
            self.waiting.extend(rest);
            // The last first, as the last that waits is the next.
            for (path, status) in entries.iter().rev() {
                if status.kind == Kind::Directory && (self.worth)(path) {
                    self.waiting.push(Directory { path: path.clone(), listing: None });
                }
            }
            let objects = entries.into_iter().filter(|(_, status)| status.kind == Kind::File);
            self.found.extend(objects.map(|(path, status)| meta::of(path, &status)));
        }
    }
}

/// The next entries of a directory. One that is not there, or is no directory, has none.
async fn page(client: Client, Directory { path, listing }: Directory) -> Result<Page> {
    let nothing = Page { entries: Vec::new(), rest: None };
    let mut listing = match listing {
        Some(listing) => listing,
        None => {
            let Some(directory) = location::directory(&path) else { return Ok(nothing) };
            match client.list(&directory).await.map_err(|error| of_look(&path, error)) {
                Ok(listing) => listing,
                Err(object_store::Error::NotFound { .. }) => return Ok(nothing),
                Err(error) => return Err(error),
            }
        }
    };
    let mut entries = Vec::new();
    for _ in 0..PAGE_LEN {
        match listing.next().await {
            Ok(Some(status)) => match location::child(&path, &status.name) {
                Some(child) => entries.push((child, status)),
                None if status.name.is_empty() || client::is_unfinished(&status.name) => {}
                None => tracing::debug!(directory = %path, name = ?status.name, "a name that no object can have"),
            },
            Ok(None) => return Ok(Page { entries, rest: None }),
            Err(error) => return Err(of_look(&path, error)),
        }
    }
    Ok(Page { entries, rest: Some(Directory { path, listing: Some(listing) }) })
}

fn stream_of(walk: Walk) -> BoxStream<'static, Result<ObjectMeta>> {
    stream::try_unfold(walk, |mut walk| async move { Ok(walk.next().await?.map(|object| (object, walk))) }).boxed()
}

/// All objects below `prefix`, in no order.
pub(crate) fn list(client: &Client, prefix: Path) -> BoxStream<'static, Result<ObjectMeta>> {
    stream_of(Walk::new(client, prefix, DIRECTORY_COUNT, Box::new(|_| true)))
}

/// Those whose names are greater than `offset`.
pub(crate) fn list_behind(client: &Client, prefix: Path, offset: Path) -> BoxStream<'static, Result<ObjectMeta>> {
    let worth = {
        let offset = offset.clone();
        move |directory: &Path| reaches_behind(directory, &offset)
    };
    let walk = Walk::new(client, prefix, DIRECTORY_COUNT, Box::new(worth));
    stream_of(walk).try_filter(move |object| std::future::ready(object.location > offset)).boxed()
}

/// Whether something in this directory may be behind `offset`.
fn reaches_behind(directory: &Path, offset: &Path) -> bool {
    let first = format!("{directory}/");
    first.as_str() > offset.as_ref() || offset.as_ref().starts_with(&first)
}

/// What lies in a directory itself. Of directories in it, those below which there is an object.
pub(crate) async fn list_one(client: &Client, prefix: Path) -> Result<ListResult> {
    let (mut objects, mut directories) = (Vec::new(), Vec::new());
    let mut next = Some(Directory { path: prefix, listing: None });
    while let Some(directory) = next {
        let Page { entries, rest } = page(client.clone(), directory).await?;
        for (path, status) in entries {
            match status.kind {
                Kind::File => objects.push(meta::of(path, &status)),
                Kind::Directory => directories.push(path),
                Kind::Symlink => {}
            }
        }
        next = rest;
    }
    let common_prefixes = stream::iter(directories)
        .map(|directory| async move {
            let mut walk = Walk::new(client, directory.clone(), 1, Box::new(|_| true));
            let has_object = walk.next().await?.is_some();
            Ok::<_, object_store::Error>(has_object.then_some(directory))
        })
        .buffered(DIRECTORY_COUNT)
        .try_filter_map(|directory: Option<Path>| std::future::ready(Ok(directory)))
        .try_collect::<Vec<_>>();
    Ok(ListResult {
        common_prefixes: common_prefixes.await?,
        objects,
        #[cfg(not(feature = "object_store_0_13"))]
        extensions: object_store::Extensions::default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_that_end_before_an_offset_are_passed_over() {
        let offset = Path::from("b/c/d");
        let reaches = |directory: &str| reaches_behind(&Path::from(directory), &offset);
        for directory in ["b", "b/c", "b/c/d", "b/d", "c", "b/c0"] {
            assert!(reaches(directory), "{directory}");
        }
        // `b-` comes before `b/`.
        for directory in ["a", "b/a", "b-", "b/b/c"] {
            assert!(!reaches(directory), "{directory}");
        }
        assert!(reaches_behind(&Path::from("a"), &Path::ROOT));
    }
}
