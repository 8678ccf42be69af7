//! An edge, and how it asks the store: each answer is learned from.

use super::belief::{self, Asking, Belief};
use super::config::{AHEAD_PARTS, EdgeConfig};
use super::kept::{Kept, QueueUsage};
use super::link::Link;
use super::remembered::{Remembered, Said};
use super::tally::Tally;
use super::upstream::Upstreams;
use bytes::Bytes;
use client::{Client, Error, ErrorKind, Listing, Refused, Result, Store};
use edge::Asked;
use hdfs::exception;
use hdfs::proto::GetFileInfoResponseProto;
use io::TaskGroup;
use prost::Message;
use std::sync::{Arc, Weak};

#[derive(Debug)]
pub(crate) struct Edge {
    pub(super) kept: Kept,
    pub(super) remembered: Remembered,
    pub(super) upstreams: Upstreams,
    pub(super) link: Arc<Link>,
    pub(super) belief: Belief,
    pub(super) tally: Arc<Tally>,
}

impl Edge {
    /// Takes what an earlier process left. The store need not be up.
    pub(crate) async fn start(
        config: &EdgeConfig,
        store: &Store,
        user: &str,
        tasks: TaskGroup,
    ) -> std::io::Result<Arc<Self>> {
        let tally = Arc::new(Tally::default());
        let (dir, limits, queues) = (config.cache_dir.clone(), config.limits(), config.queue_limits());
        let of_kept = Arc::clone(&tally);
        let kept = io::task::blocking(move || Kept::open(dir.as_deref(), limits, queues, of_kept)).await?;
        let usage = kept.usage();
        tracing::info!(bytes = usage.disk_len, pieces = usage.extent_count, "what is kept was found");
        let edge = Arc::new(Self {
            kept,
            remembered: Remembered::new(config.openings_len()),
            upstreams: Upstreams::new(config.part(AHEAD_PARTS), Arc::clone(&tally)),
            link: Link::new(store.clone(), user, tasks.clone(), Arc::clone(&tally)),
            belief: Belief::new(store.clone(), user),
            tally,
        });
        tasks.spawn_detached("belief", keep_asking_for_belief(Arc::downgrade(&edge)));
        Ok(edge)
    }

    /// As [`Self::status`], for a client of HDFS, with the answer as it came.
    pub(crate) async fn forward_status(
        &self,
        client: &Client,
        path: &str,
        request: Bytes,
    ) -> Result<Result<Bytes, Refused>> {
        let asked = self.remembered.ask();
        let answer = self.ask(client.forward("getFileInfo", request)).await?;
        match &answer {
            Ok(bytes) => {
                // What cannot be read says nothing.
                if let Ok(message) = GetFileInfoResponseProto::decode(bytes.clone()) {
                    let said = message.fs.as_ref().map(|status| Said::Status(status.into()));
                    self.learn(asked, client, path, said.ok_or(&Error::NotFound)).await;
                }
            }
            Err(refused) => self.learn_refusal(asked, client, path, refused).await,
        }
        Ok(answer)
    }

    /// Any other call of a client of HDFS, about a path if it is about one: a refusal is learned from.
    pub(crate) async fn forward(
        &self,
        client: &Client,
        method: &str,
        path: Option<&str>,
        request: Bytes,
    ) -> Result<Result<Bytes, Refused>> {
        let asked = self.remembered.ask();
        let answer = self.ask(client.forward(method, request)).await?;
        if let (Err(refused), Some(path)) = (&answer, path) {
            self.learn_refusal(asked, client, path, refused).await;
        }
        Ok(answer)
    }

    /// What a directory has. What is said of each name is not learned from, unless the directory is refused.
    pub(crate) async fn list(&self, client: &Client, path: &str) -> Result<Listing> {
        let asked = self.remembered.ask();
        let listing = self.ask(client.list(path)).await;
        if let Err(error) = &listing {
            self.learn(asked, client, path, Err(error)).await;
        }
        listing
    }

    async fn learn_refusal(&self, asked: Asked, client: &Client, path: &str, refused: &Refused) {
        let error = match refused.class.as_str() {
            exception::ACCESS_CONTROL | exception::AUTHORIZATION => Error::Denied(String::new()),
            exception::FILE_NOT_FOUND => Error::NotFound,
            exception::PARENT_NOT_DIRECTORY => Error::NotADirectory,
            _ => return,
        };
        self.learn(asked, client, path, Err(&error)).await;
    }

    /// Who proves nothing and is refused hears so once it is known whether it was for that.
    pub(super) async fn learn(&self, asked: Asked, client: &Client, path: &str, answer: Result<Said<'_>, &Error>) {
        let is_denied = answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::Denied);
        self.remembered.learn(asked, client.user(), path, answer);
        if is_denied && client.is_without_proof() {
            self.belief.doubt();
            // While it cannot be asked, it stays in doubt.
            if let Err(error) = self.believes_names().await {
                tracing::debug!(%error, "the store does not say whether it believes names");
            }
        }
    }

    /// Whether the store believes names that nobody has proven. While it cannot be asked, as it said before.
    pub(crate) async fn believes_names(&self) -> Result<bool> {
        if let Some(believes) = self.belief.known(self.link.now()) {
            return Ok(believes);
        }
        let came = self.belief.asking(self.link.now());
        let _turn = self.belief.turn().await;
        let now = self.link.now();
        // Another one may have asked meanwhile. Who was refused since then waits for an answer of his own: nobody else
        // does, and so nobody waits for more than two.
        if let Some(believes) = self.belief.known(now).or_else(|| self.belief.answered_since(came)) {
            return Ok(believes);
        }
        let asking = self.belief.asking(now);
        match self.link.ask(self.belief.ask()).await {
            Some(answer) => {
                let believes = answer?;
                self.learn_belief(asking, believes);
                // A later question may have been answered before this one.
                Ok(believes && self.belief.is_held())
            }
            None => self.belief.last().ok_or_else(|| self.link.refusal()),
        }
    }

    /// The store has asked for a proof.
    pub(crate) fn believe_no_names(&self) {
        self.learn_belief(self.belief.asking(self.link.now()), false);
    }

    fn learn_belief(&self, asking: Asking, believes: bool) {
        if self.belief.learn(asking, believes) {
            tracing::info!("the store believes no names; what it said to those who proved nothing counts no more");
            self.remembered.forget_all();
        }
    }

    /// Whether what was said to this user before still counts, as far as is known.
    pub(super) fn is_believed(&self, client: &Client) -> bool {
        !client.is_without_proof() || self.belief.last() == Some(true)
    }

    /// Any other question to the store.
    pub(crate) async fn ask<T>(&self, asking: impl Future<Output = Result<T>>) -> Result<T> {
        self.link.ask(asking).await.unwrap_or_else(|| Err(self.link.refusal()))
    }

    pub(crate) fn is_up(&self) -> bool {
        self.link.is_up()
    }

    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    pub(crate) fn usage(&self) -> edge::Usage {
        self.kept.usage()
    }

    pub(crate) fn queues(&self) -> QueueUsage {
        self.kept.queues()
    }

    /// Writes what waits for the disk, and keeps what was learned. Readers go on without.
    pub(crate) async fn stop(self: Arc<Self>) {
        self.upstreams.clear();
        io::task::blocking(move || self.kept.close()).await;
    }
}

/// As long as names are gone by, so that a store that begins to ask for proofs is found out before the link goes down.
async fn keep_asking_for_belief(edge: Weak<Edge>) {
    loop {
        tokio::time::sleep(belief::LOOK_EACH).await;
        let Some(edge) = edge.upgrade() else { return };
        if edge.belief.is_held()
            && let Err(error) = edge.believes_names().await
        {
            tracing::debug!(%error, "the store does not say whether it believes names");
        }
    }
}
