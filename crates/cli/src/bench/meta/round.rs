//! One round with one number of connections: makes what each call needs, measures the call, removes all of it.

use super::acts::{add_block, create, create_open, delete, list, mkdir, open, rename, stat, write};
use super::call::{Call, ENTRY_COUNT};
use super::workers::{Done, Workers};
use crate::bench::cost::{Cost, Costs, Side};
use crate::shell::{Failure, Target};
use client::OpenFile;
use std::sync::Arc;
use std::time::Duration;

/// Files that are opened: many, so that the server does not answer about the same one all the time.
const OPENED_COUNT: u64 = 64;

/// A metadata server of Levada writes changes from memory to its store within a second: that is a cost of the calls
/// too.
const SETTLE: Duration = Duration::from_millis(1250);

/// What one measurement came to.
#[derive(Debug)]
pub(super) struct Sample {
    pub(super) wall: Duration,
    pub(super) durations: Vec<Duration>,
    pub(super) client: Cost,
    /// `None` if the store is not one of Levada.
    pub(super) server: Option<(Side, Cost)>,
}

/// What all rounds read and none changes.
#[derive(Clone, Debug)]
pub(super) struct Fixture {
    listed: Target,
    opened: Target,
}

impl Fixture {
    /// Makes only what `calls` need.
    pub(super) async fn make(
        workers: &Workers,
        connections: u32,
        dir: &Target,
        calls: &[Call],
    ) -> Result<Self, Failure> {
        let fixture = Self { listed: dir.child("listed"), opened: dir.child("opened") };
        if calls.contains(&Call::List) {
            let listed = fixture.listed.clone();
            mkdir(listed.client.clone(), listed.clone()).await?;
            let name = move |number| listed.child(&format!("file-{number:06}"));
            workers.each(connections, ENTRY_COUNT, move |client, number| create(client, name(number))).await?;
        }
        if calls.contains(&Call::Open) {
            mkdir(fixture.opened.client.clone(), fixture.opened.clone()).await?;
            let files = fixture.clone();
            workers.each(connections, OPENED_COUNT, move |client, number| write(client, files.opened(number))).await?;
        }
        Ok(fixture)
    }

    fn opened(&self, number: u64) -> Target {
        self.opened.child(&(number % OPENED_COUNT).to_string())
    }
}

pub(super) struct Round<'a> {
    workers: &'a Workers,
    fixture: &'a Fixture,
    folders: Folders,
    /// Changes in one measurement.
    count: u64,
    files: Files,
}

/// The files of a round, as the calls before have left them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Files {
    Missing,
    Created,
    Renamed,
}

/// A directory for each connection: they would wait for one another's changes of a single one, as few programs do.
#[derive(Clone, Debug)]
struct Folders {
    dir: Target,
    connections: u32,
}

impl Folders {
    fn path(&self, name: &str, number: u64) -> Target {
        let folder = number % u64::from(self.connections);
        self.dir.child(&folder.to_string()).child(&format!("{name}-{number:06}"))
    }
}

impl<'a> Round<'a> {
    pub(super) async fn begin(
        workers: &'a Workers,
        fixture: &'a Fixture,
        dir: Target,
        connections: u32,
        count: u64,
    ) -> Result<Self, Failure> {
        mkdir(dir.client.clone(), dir.clone()).await?;
        for connection in 0..connections {
            mkdir(dir.client.clone(), dir.child(&connection.to_string())).await?;
        }
        Ok(Self { workers, fixture, folders: Folders { dir, connections }, count, files: Files::Missing })
    }

    pub(super) async fn end(self) -> Result<(), Failure> {
        delete_all(&self.folders.dir).await
    }

    pub(super) async fn measure(&mut self, call: Call) -> Result<Sample, Failure> {
        let open_files = self.prepare(call).await?;
        let dir = self.folders.dir.clone();
        // What was done before is not to be counted here.
        tokio::time::sleep(SETTLE).await;
        let before = Costs::sample(&dir.client).await.map_err(|error| dir.failure(&error))?;
        let done = self.perform(call, open_files).await?;
        let own = host::process::cpu_time();
        if call.is_change() {
            tokio::time::sleep(SETTLE).await;
        }
        let mut costs = before.until(&dir.client, own).await.map_err(|error| dir.failure(&error))?;
        let client = costs.remove(&Side::Client).unwrap_or_default();
        let server = [Side::Metadata, Side::Servers].into_iter().find_map(|side| Some((side, *costs.get(&side)?)));
        Ok(Sample { wall: done.wall, durations: done.durations, client, server })
    }

    /// Makes what is missing. Only `addBlock` needs files that are open.
    async fn prepare(&mut self, call: Call) -> Result<Vec<OpenFile>, Failure> {
        let (folders, connections) = (self.folders.clone(), self.folders.connections);
        match call {
            Call::Stat | Call::Rename | Call::Delete if self.files == Files::Missing => {
                let act = move |client, number| create(client, folders.path("file", number));
                self.workers.each(connections, self.count, act).await?;
                self.files = Files::Created;
            }
            Call::Addblock => {
                let act = move |client, number| create_open(client, folders.path("open", number));
                return Ok(self.workers.each(connections, self.count, act).await?.outputs);
            }
            _ => {}
        }
        Ok(Vec::new())
    }

    async fn perform(&mut self, call: Call, open_files: Vec<OpenFile>) -> Result<Done<()>, Failure> {
        let (folders, connections, count) = (self.folders.clone(), self.folders.connections, self.count);
        let (workers, repeated) = (self.workers, call.repeated(self.count));
        let fixture = self.fixture.clone();
        let present = if self.files == Files::Renamed { "renamed" } else { "file" };
        self.files = match call {
            Call::Create => Files::Created,
            Call::Rename => Files::Renamed,
            Call::Delete => Files::Missing,
            _ => self.files,
        };
        match call {
            Call::Mkdir => {
                let act = move |client, number| mkdir(client, folders.path("directory", number));
                workers.each(connections, repeated, act).await
            }
            Call::Create => {
                let act = move |client, number| create(client, folders.path("file", number));
                workers.each(connections, repeated, act).await
            }
            Call::Stat => {
                let act = move |client, number| stat(client, folders.path(present, number % count));
                workers.each(connections, repeated, act).await
            }
            Call::Open => {
                let act = move |client, number| open(client, fixture.opened(number));
                workers.each(connections, repeated, act).await
            }
            Call::Addblock => {
                let open_files = Arc::new(open_files);
                let act = move |_, number| {
                    let (open_files, path) = (Arc::clone(&open_files), folders.path("open", number));
                    async move { add_block(&open_files[number as usize], path).await }
                };
                workers.each(connections, repeated, act).await
            }
            Call::Rename => {
                let act = move |client, number| {
                    rename(client, folders.path(present, number), folders.path("renamed", number))
                };
                workers.each(connections, repeated, act).await
            }
            Call::Delete => {
                let act = move |client, number| delete(client, folders.path(present, number));
                workers.each(connections, repeated, act).await
            }
            Call::List => {
                let act = move |client, _| list(client, fixture.listed.clone());
                workers.each(connections, repeated, act).await
            }
        }
    }
}

async fn delete_all(dir: &Target) -> Result<(), Failure> {
    dir.client.delete(&dir.path, true).await.map(|_| ()).map_err(|error| dir.failure(&error))
}
