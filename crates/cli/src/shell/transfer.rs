//! Many files, a few at a time.

use super::Session;
use std::future::Future;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Files moved at the same time, unless the user says otherwise: enough to hide the round trips of small ones.
pub(crate) const WIDTH_DEFAULT: usize = 4;
/// Files found ahead of those being moved, so that a tree of any size needs the same memory.
const AHEAD_MAX: usize = 256;

/// Runs `run` for every job that `find` sends, `width` at a time. `run` reports its own failures. Dropped, it stops them all.
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

/// `--threads`, `--quiet`: what every command that moves files takes.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TransferArgs {
    /// Files moved at the same time
    #[arg(short = 't', long, value_name = "N", default_value_t = WIDTH_DEFAULT)]
    pub(crate) threads: usize,
    /// No progress bar
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

impl TransferArgs {
    pub(crate) fn width(&self) -> usize {
        self.threads.clamp(1, 64)
    }

    pub(crate) fn start(&self, session: &Session) {
        session.progress.start(self.quiet || session.output.is_json());
    }
}
