//! Many files, a few at a time.

use super::browse::{Found, Walk};
use super::failure::{Failure, Stop, no_directory};
use super::session::Session;
use super::target::{Target, names_directory};
use std::future::Future;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Files moved at the same time, unless the user says otherwise: enough to hide the round trips of small ones.
pub(crate) const WIDTH_DEFAULT: u8 = 4;
/// Files found ahead of those being moved, so that a tree of any size needs the same memory.
const AHEAD_MAX: usize = 256;

/// Runs `run` for every job that `find` sends, `width` at a time. `run` reports its own failures. Dropped, it stops
/// them all.
pub(crate) async fn each<J, F, R, P, O>(width: usize, find: F, run: R) -> O
where
    J: Send + 'static,
    F: AsyncFnOnce(mpsc::Sender<J>) -> O,
    R: Fn(J) -> P + Clone + Send + Sync + 'static,
    P: Future<Output = ()> + Send + 'static,
{
    let (sender, receiver) = mpsc::channel(AHEAD_MAX);
    let receiver = Arc::new(tokio::sync::Mutex::new(receiver));
    let workers: Vec<_> = (0..width.max(1))
        .map(|_| {
            let (receiver, run) = (Arc::clone(&receiver), run.clone());
            io::task::spawn_owned("transfer", async move {
                loop {
                    let job = receiver.lock().await.recv().await;
                    match job {
                        Some(job) => run(job).await,
                        None => return,
                    }
                }
            })
        })
        .collect();
    drop(receiver);
    let outcome = find(sender).await;
    for worker in workers {
        // A panic was logged; the other workers have done its jobs.
        let _ = worker.await;
    }
    outcome
}

/// Calls under way at once when many small ones are to be made. A guess; the server does them one after the other
/// anyway.
const CALLS_AT_ONCE: usize = 8;

/// Runs `act` for all that the operands stand for, and, if `below`, for all that lies below, a few at a time. What
/// fails is reported, and the rest goes on.
pub(crate) async fn every<F, P>(session: &Arc<Session>, paths: &[String], below: bool, act: F) -> Result<(), Stop>
where
    F: Fn(Found) -> P + Clone + Send + Sync + 'static,
    P: Future<Output = Result<(), Failure>> + Send + 'static,
{
    let run = {
        let session = Arc::clone(session);
        move |found: Found| {
            let (session, acting) = (Arc::clone(&session), act(found));
            async move {
                if let Err(failure) = acting.await {
                    session.report(&failure);
                }
            }
        }
    };
    let find = async |jobs: mpsc::Sender<Found>| {
        for path in paths {
            for start in session.found(path).await? {
                let mut walk = Walk::over_if(start, below);
                while let Some(found) = walk.next().await {
                    match session.settle(found.map_err(Stop::from))? {
                        Some(found) => drop(jobs.send(found).await),
                        None => continue,
                    }
                }
            }
        }
        Ok(())
    };
    each(CALLS_AT_ONCE, find, run).await
}

/// Where copies or moved files go, and whether into a directory that is there, under their names. Several have to.
pub(crate) async fn destination(session: &Session, typed: &str, several: bool) -> Result<(Target, bool), Stop> {
    let (destination, there) = session.place(typed).await?;
    let into = there.as_ref().is_some_and(client::Status::is_dir);
    if !into && (several || names_directory(typed)) {
        return Err(no_directory(&destination, there.is_some(), several).into());
    }
    Ok((destination, into))
}

/// `--threads`, `--quiet`: what every command that moves files takes.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TransferArgs {
    /// Files moved at the same time
    #[arg(short = 't', long, value_name = "N", default_value_t = WIDTH_DEFAULT,
        value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(crate) threads: u8,
    /// No progress bar
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

impl TransferArgs {
    pub(crate) fn width(&self) -> usize {
        usize::from(self.threads)
    }

    pub(crate) fn start(&self, session: &Session) {
        session.progress.start(self.quiet || session.output.is_json());
    }
}
