//! Connections at work side by side: each makes one call at a time.

use crate::bench::own_client::own_client;
use crate::shell::{Failure, Session, Target};
use client::{Client, Options};
use io::task::Owned;
use io::{Clock, SystemClock};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub(super) struct Workers {
    clients: Vec<Client>,
    job: Arc<Job>,
}

struct Job {
    /// Held by every task: what is made after an interrupt would otherwise outlive the directory's removal.
    session: Arc<Session>,
    clock: SystemClock,
    /// The first of a run.
    failure: Mutex<Option<Failure>>,
}

/// What `count` calls came to.
pub(super) struct Done<T> {
    pub(super) wall: Duration,
    pub(super) durations: Vec<Duration>,
    /// In the order of the calls' numbers.
    pub(super) outputs: Vec<T>,
}

/// Of one connection: the number of each call, how long it took, what it gave.
type Calls<T> = Vec<(u64, Duration, T)>;

impl Workers {
    /// Every connection is there when this returns.
    pub(super) async fn connect(session: &Arc<Session>, dir: &Target, connections: u32) -> Result<Self, Failure> {
        let clients: Vec<Client> = (0..connections).map(|_| own_client(dir, Options::default())).collect();
        for client in &clients {
            client.defaults().await.map_err(|error| dir.failure(&error))?;
        }
        let job = Job { session: Arc::clone(session), clock: SystemClock::new(), failure: Mutex::default() };
        Ok(Self { clients, job: Arc::new(job) })
    }

    /// Makes the calls 0 to `count`, each by the connection that its number gives, modulo `connections`. The first
    /// failure ends it: what is left would measure something else.
    pub(super) async fn each<T, F>(
        &self,
        connections: u32,
        count: u64,
        act: impl Fn(Client, u64) -> F + Clone + Send + Sync + 'static,
    ) -> Result<Done<T>, Failure>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        let connections = (connections as usize).min(self.clients.len());
        let begun = self.job.clock.monotonic();
        let start = |(first, client): (usize, &Client)| {
            let (job, client, act) = (Arc::clone(&self.job), client.clone(), act.clone());
            io::task::spawn_owned("bench connection", async move {
                job.calls((first as u64..count).step_by(connections), |number| act(client.clone(), number)).await
            })
        };
        let running: Vec<Owned<Calls<T>>> = self.clients[..connections].iter().enumerate().map(start).collect();
        let mut all: Calls<T> = Vec::with_capacity(count as usize);
        for calls in running {
            all.extend(calls.await.map_err(|ended| Failure::new("a connection", ended))?);
        }
        if let Some(failure) = self.job.lock().take() {
            return Err(failure);
        }
        let wall = self.job.clock.monotonic() - begun;
        assert_eq!(all.len() as u64, count, "every call has an end");
        all.sort_unstable_by_key(|(number, ..)| *number);
        let (mut durations, mut outputs) = (Vec::with_capacity(all.len()), Vec::with_capacity(all.len()));
        for (_, duration, output) in all {
            durations.push(duration);
            outputs.push(output);
        }
        Ok(Done { wall, durations, outputs })
    }
}

impl Job {
    /// Those that were made until one failed, here or by another connection.
    async fn calls<T, F>(&self, numbers: impl Iterator<Item = u64>, act: impl Fn(u64) -> F) -> Calls<T>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let mut calls = Vec::new();
        for number in numbers {
            let begun = self.clock.monotonic();
            let output = act(number).await;
            let duration = self.clock.monotonic() - begun;
            self.session.progress.advance(1);
            let mut failure = self.lock();
            match output {
                Ok(output) if failure.is_none() => calls.push((number, duration, output)),
                Ok(_) => break,
                Err(error) => {
                    failure.get_or_insert(error);
                    break;
                }
            }
        }
        calls
    }

    fn lock(&self) -> MutexGuard<'_, Option<Failure>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
