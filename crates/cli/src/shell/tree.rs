//! Trees of the store on their way to another place: what `cp` and `get` share.

use super::browse::{Found, Walk};
use super::copy::make_directory;
use super::failure::{Failure, Stop};
use super::session::Session;
use super::target::Target;
use serde::Serialize;
use std::path::PathBuf;
use tokio::sync::mpsc::Sender;

/// Where copies go.
pub(crate) trait Place: Clone {
    fn below(&self, names: &str) -> Self;
    /// Makes a directory here; one that is there already will do.
    async fn make(&self) -> Result<(), Failure>;
}

impl Place for Target {
    fn below(&self, names: &str) -> Self {
        self.child(names)
    }

    async fn make(&self) -> Result<(), Failure> {
        make_directory(self).await
    }
}

impl Place for PathBuf {
    fn below(&self, names: &str) -> Self {
        self.join(names)
    }

    async fn make(&self) -> Result<(), Failure> {
        match std::fs::create_dir(self) {
            Err(error) if !self.is_dir() => Err(Failure::not_made(self, &error)),
            _ => Ok(()),
        }
    }
}

/// A file to be copied.
#[derive(Debug)]
pub(crate) struct Job<P> {
    pub(crate) from: Found,
    pub(crate) to: P,
}

/// Finds files from `start` down, makes the directories for them, and sends them to be copied.
pub(crate) async fn send<P: Place>(
    session: &Session,
    jobs: &Sender<Job<P>>,
    start: Found,
    to: P,
    directories: &mut Vec<(P, Found)>,
) {
    let top = start.target.path.trim_end_matches('/').len();
    let mut walk = Walk::over(start);
    while let Some(next) = walk.next().await {
        let from = match next {
            Ok(from) => from,
            Err(failure) => {
                session.report(&failure);
                continue;
            }
        };
        let rest = from.target.path[top..].trim_start_matches('/');
        let place = if rest.is_empty() { to.clone() } else { to.below(rest) };
        if from.status.is_dir() {
            match place.make().await {
                Ok(()) => directories.push((place, from)),
                Err(failure) => {
                    session.report(&failure);
                    walk.leave();
                }
            }
            continue;
        }
        session.progress.expect(from.status.len);
        if jobs.send(Job { from, to: place }).await.is_err() {
            return;
        }
    }
}

/// A line of `--json`: one file was copied.
#[derive(Debug, Serialize)]
struct Done {
    from: String,
    to: String,
    len: u64,
}

/// Says that a file was copied, to those who want to know.
pub(crate) fn print_transfer(session: &Session, from: String, to: String, len: u64) -> Result<(), Stop> {
    if session.output.is_json() { session.output.json(&Done { from, to, len }) } else { Ok(()) }
}

/// What became of a file. A closed pipe ends the printing, not the copying.
pub(crate) fn settle(session: &Session, copied: Result<u64, Failure>, from: String, to: String) {
    match copied {
        Ok(len) => drop(print_transfer(session, from, to, len)),
        Err(failure) => session.report(&failure),
    }
}
