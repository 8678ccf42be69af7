//! The clients: each takes the next file that nobody has, until there is none.

use super::pattern::Pattern;
use super::plan::Plan;
use crate::bench::own_client::own_client;
use crate::shell::{Failure, Session, Target};
use client::{Client, Create};
use io::task::Owned;
use io::{Clock, SystemClock};
use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// After so many failures nobody begins another file: a store that is gone fails every one, and slowly.
const FAILURE_COUNT_MAX: u64 = 10;
/// Bytes compared at a time. Fits a processor's second-level cache beside those they are compared with.
const STEP_LEN: usize = 256 << 10;

const FOLDER_FILE_COUNT: u64 = 10_000;

pub(super) struct Clients {
    clients: Vec<Client>,
    job: Arc<Job>,
}

/// What all clients share.
struct Job {
    session: Arc<Session>,
    dir: Target,
    pattern: Arc<Pattern>,
    create: Create,
    files: u64,
    len: u64,
    clock: SystemClock,
    failures: AtomicU64,
}

pub(super) struct Written {
    /// From the creation of a file until it was complete; only of those that came to be.
    pub(super) durations: Vec<Duration>,
    /// Numbers of the files that did not.
    missing: HashSet<u64>,
    pub(super) replication: u16,
}

impl Clients {
    /// Connections and directories are there when this returns.
    pub(super) async fn connect(
        session: &Arc<Session>,
        plan: &Plan,
        dir: &Target,
        pattern: Arc<Pattern>,
    ) -> Result<Self, Failure> {
        for folder in 0..=(plan.files - 1) / FOLDER_FILE_COUNT {
            let path = dir.child(&folder.to_string());
            path.client.mkdirs(&path.path, 0o755, false).await.map_err(|error| path.failure(&error))?;
        }
        let clients: Vec<Client> = (0..plan.clients).map(|_| own_client(dir, plan.options())).collect();
        for client in &clients {
            client.defaults().await.map_err(|error| dir.failure(&error))?;
        }
        // Not the parents: after an interrupt a late creation must not bring the directory back.
        let create = Create {
            parents: false,
            replication: plan.replication,
            block_len: plan.block_len,
            len: Some(plan.len),
            ..Create::default()
        };
        let job = Job {
            session: Arc::clone(session),
            dir: dir.clone(),
            pattern,
            create,
            files: plan.files,
            len: plan.len,
            clock: SystemClock::new(),
            failures: AtomicU64::new(0),
        };
        Ok(Self { clients, job: Arc::new(job) })
    }

    pub(super) async fn write(&self) -> Written {
        self.job.session.progress.name("writing");
        let done = self.each(|job, client, file| async move { job.write(&client, file).await }).await;
        let all: HashSet<u64> = done.iter().map(|(file, _)| *file).collect();
        Written {
            durations: done.into_iter().map(|(_, duration)| duration).collect(),
            missing: (0..self.job.files).filter(|file| !all.contains(file)).collect(),
            replication: match (self.job.create.replication, self.clients.first()) {
                (Some(replication), _) => replication,
                (None, Some(client)) => client.defaults().await.map_or(0, |defaults| defaults.replication),
                (None, None) => 0,
            },
        }
    }

    /// Reads all that was written, and compares. Answers how many files were as they should be.
    pub(super) async fn verify(&self, written: &Written) -> u64 {
        self.job.session.progress.name("reading back");
        self.job.failures.store(0, Ordering::Relaxed);
        let missing = Arc::new(written.missing.clone());
        let verify = move |job: Arc<Job>, client: Client, file: u64| {
            let missing = Arc::clone(&missing);
            async move {
                match missing.contains(&file) {
                    true => Ok(false),
                    false => job.verify(&client, file).await.map(|()| true),
                }
            }
        };
        self.each(verify).await.into_iter().filter(|(_, there)| *there).count() as u64
    }

    /// Has every file done by some client; answers those that went well.
    async fn each<T, F>(&self, act: impl Fn(Arc<Job>, Client, u64) -> F + Clone + Send + 'static) -> Vec<(u64, T)>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        let next = Arc::new(AtomicU64::new(0));
        let start = |client: &Client| {
            let (job, client, next, act) = (Arc::clone(&self.job), client.clone(), Arc::clone(&next), act.clone());
            io::task::spawn_owned("bench client", async move {
                let mut done = Vec::new();
                while job.failures.load(Ordering::Relaxed) < FAILURE_COUNT_MAX {
                    let file = next.fetch_add(1, Ordering::Relaxed);
                    if file >= job.files {
                        break;
                    }
                    match act(Arc::clone(&job), client.clone(), file).await {
                        Ok(value) => done.push((file, value)),
                        Err(failure) => {
                            job.failures.fetch_add(1, Ordering::Relaxed);
                            job.session.report(&failure);
                        }
                    }
                }
                done
            })
        };
        let running: Vec<Owned<Vec<(u64, T)>>> = self.clients.iter().map(start).collect();
        let mut all = Vec::new();
        for client in running {
            // A panic was logged, and its files count as missing.
            all.extend(client.await.unwrap_or_default());
        }
        all
    }
}

impl Job {
    async fn write(&self, client: &Client, file: u64) -> Result<Duration, Failure> {
        let target = path_of(&self.dir, file);
        let begun = self.clock.monotonic();
        let write = async {
            let mut writer = client.create(&target.path, &self.create).await?;
            let mut offset = 0;
            while offset < self.len {
                let space = writer.space();
                let len = usize::try_from(self.len - offset).unwrap_or(usize::MAX).min(space.len());
                self.pattern.fill(file, offset, &mut space[..len]);
                writer.filled(len).await?;
                offset += len as u64;
                self.session.progress.advance(len as u64);
            }
            writer.close().await
        };
        write.await.map_err(|error| target.failure(&error))?;
        Ok(self.clock.monotonic() - begun)
    }

    async fn verify(&self, client: &Client, file: u64) -> Result<(), Failure> {
        let target = path_of(&self.dir, file);
        let failure = |error| target.failure(&error);
        let mut reader = client.open(&target.path).await.map_err(failure)?;
        if reader.len() != self.len {
            return Err(Failure::new(&target, format!("has {} bytes, {} were written", reader.len(), self.len)));
        }
        let step_len = usize::try_from(self.len).unwrap_or(STEP_LEN).min(STEP_LEN);
        let (mut found, mut wanted) = (vec![0; step_len], vec![0; step_len]);
        let mut offset = 0;
        while offset < self.len {
            let len = reader.read(&mut found).await.map_err(failure)?;
            if len == 0 {
                return Err(Failure::new(&target, format!("ends at {offset}, {} bytes were written", self.len)));
            }
            self.pattern.fill(file, offset, &mut wanted[..len]);
            if found[..len] != wanted[..len] {
                let at = found.iter().zip(&wanted).position(|(found, wanted)| found != wanted).unwrap_or(0);
                let at = offset + at as u64;
                return Err(Failure::new(&target, format!("byte {at} is not what was written"))
                    .advise("this is a fault of the store; keep its logs and the files (--keep) and report it"));
            }
            offset += len as u64;
            self.session.progress.advance(len as u64);
        }
        Ok(())
    }
}

/// Where the files lie below the directory of the run: a directory of a million entries would measure something else.
fn path_of(dir: &Target, file: u64) -> Target {
    dir.child(&format!("{}", file / FOLDER_FILE_COUNT)).child(&format!("{file}"))
}
