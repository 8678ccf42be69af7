//! Reads all replicas of one disk within a period, again and again.
//!
//! Promise: it goes on where it was after a restart or an error, and reads at most `scrub_len_per_s` bytes a second. It
//! rests while a scrub that was ordered is under way, and while more damage is known than can be told.

use super::round::Round;
use super::{STEP_COUNT, verify};
use crate::node::Node;
use crate::pace::PAUSE_MAX;
use container::{ReplicaError, ReplicaInfo};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use types::ReplicaState;

/// After the start of a node, which has other things to do.
const REST: Duration = if cfg!(test) { Duration::ZERO } else { Duration::from_secs(30) };
/// Until somebody looks whether a replica is due.
const LOOK_EACH: Duration = if cfg!(test) { Duration::from_millis(5) } else { Duration::from_secs(1) };
/// After an error, before the same is tried again.
const PAUSE_AFTER_ERROR: Duration = Duration::from_secs(5);
/// At most so much is read once more after a crash.
const SAVE_EACH: Duration = if cfg!(test) { Duration::ZERO } else { Duration::from_secs(60) };
const FILE: &str = "scrub";

struct Background {
    node: Arc<Node>,
    disk: usize,
    path: PathBuf,
    period: Duration,
    round: Round,
    saved_at: Duration,
}

pub(crate) async fn run(node: Arc<Node>, disk: usize) {
    let (period, len_per_s) = (node.config.limits.scrub_period_ms, node.config.limits.scrub_len_per_s);
    if period == 0 || len_per_s == 0 {
        return;
    }
    let (path, period) = (node.disks.disks()[disk].dir().join(FILE), Duration::from_millis(period));
    let round = loop {
        let (path, now) = (path.clone(), node.wall());
        match node.disks.for_disk(disk, move |_| Round::read(&path, now, period)).await {
            Ok(Ok(round)) => break round,
            Ok(Err(error)) => {
                tracing::warn!(path = %node.disks.disks()[disk].dir().display(), %error, "the place of the background scrub does not read; a round begins");
                break Round::new(now);
            }
            Err(_hangs) => tokio::time::sleep(PAUSE_AFTER_ERROR).await,
        }
    };
    let saved_at = node.now();
    let mut background = Background { node, disk, path, period, round, saved_at };
    background.publish();
    tokio::time::sleep(REST).await;
    loop {
        background.wait_until_due().await;
        match background.read().await {
            Ok(()) => {}
            Err(error) => {
                tracing::debug!(disk, %error, "the background scrub waits");
                tokio::time::sleep(PAUSE_AFTER_ERROR).await;
            }
        }
        background.save().await;
    }
}

impl Background {
    fn is_due(&mut self) -> bool {
        let (now, used_len) = (self.node.wall(), self.node.disks.disks()[self.disk].used_len());
        self.round.keep_up(now, used_len, self.period);
        self.round.is_due(now, used_len, self.period)
    }

    async fn wait_until_due(&mut self) {
        while !self.is_due() || self.node.disks.is_out(self.disk) {
            tokio::time::sleep(LOOK_EACH).await;
        }
    }

    /// Reads what is due of one page.
    async fn read(&mut self) -> Result<(), ReplicaError> {
        let (from, disk) = (self.round.next(), self.disk);
        let page = self.node.disks.for_disk(disk, move |disks| disks.disks()[disk].volume().replicas(from, STEP_COUNT));
        let infos = page.await??;
        for info in &infos {
            if !self.is_due() {
                return Ok(());
            }
            self.look(info).await?;
            // Here as well: a page may take an hour.
            self.save().await;
        }
        if infos.len() < STEP_COUNT {
            self.round.end(self.node.wall(), self.period);
            self.node.contents.forget_all();
            self.publish();
        }
        Ok(())
    }

    async fn look(&mut self, info: &ReplicaInfo) -> Result<(), ReplicaError> {
        let node = &self.node;
        while node.scrubber.is_running() || node.copier.is_bad_full() {
            tokio::time::sleep(PAUSE_MAX).await;
        }
        let (block, mut len) = (info.identity.block, 0);
        if info.state == ReplicaState::Finalized {
            match verify(node, block).await {
                Err(error @ ReplicaError::Hangs) => return Err(error),
                // What was damage is told.
                _ => len = info.len,
            }
        }
        self.round.pass(block, len, self.node.wall());
        self.publish();
        tokio::time::sleep(Duration::from_secs_f64(len as f64 / self.node.config.limits.scrub_len_per_s as f64)).await;
        Ok(())
    }

    /// For those who ask how the disk is.
    fn publish(&self) {
        self.node.disks.disks()[self.disk].set_unread_since(self.round.oldest_unread());
    }

    async fn save(&mut self) {
        let now = self.node.now();
        if now.saturating_sub(self.saved_at) < SAVE_EACH
            || self.node.disks.disks()[self.disk].volume().failure().is_some()
        {
            return;
        }
        self.saved_at = now;
        let (round, path) = (self.round.clone(), self.path.clone());
        let written = self.node.disks.for_disk(self.disk, move |_| round.write(&path)).await;
        if let Ok(Err(error)) = written {
            tracing::warn!(path = %self.path.display(), %error, "the place of the background scrub is not written");
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "what it waits for happens on other threads")]
mod tests {
    use super::*;
    use crate::config::{Config, Limits};
    use container::{Identity, Options};
    use std::os::unix::fs::FileExt;
    use types::checksum::{ChecksumKind, ChecksumSpec};
    use types::{BlockId, ContainerId, Generation, InodeId};

    const COUNT: u64 = 40;

    fn node(dir: &std::path::Path, period_ms: u64) -> Arc<Node> {
        let options = Options { reserved_len: Some(0), ..Options::default() };
        // A look of the life before may still be under way.
        let disks = (0..200).find_map(|_| {
            std::thread::sleep(Duration::from_millis(50));
            disks::open(&[dir.to_owned()], &options).ok()
        });
        let disks = disks.expect("nobody has the directory for long");
        let any = "127.0.0.1:0".parse().unwrap();
        let mut config = Config::new(dir.to_owned(), any, any, "127.0.0.1:1".to_owned());
        config.limits = Limits { scrub_period_ms: period_ms, ..Limits::default() };
        Arc::new(Node::new(config, disks).unwrap())
    }

    fn identity(index: u64) -> Identity {
        let checksum = ChecksumSpec { kind: ChecksumKind::Crc32c, chunk_len: 512 };
        let (block, generation) = (BlockId(index), Generation(1001));
        Identity { block, generation, file: InodeId(7), home: ContainerId(0), checksum }
    }

    /// The node is started again and again, long before a round is over: damage in the last replica is found all the
    /// same.
    #[test]
    fn a_round_goes_on_over_restarts() {
        let dir = tempfile::tempdir().unwrap();
        let period_ms = 3000;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        {
            let node = node(dir.path(), period_ms);
            for index in 0..COUNT {
                let mut writer = node.disks.create(identity(index)).unwrap();
                writer.write(0, &[index as u8; 300_000], &[]).unwrap();
                writer.put(300_000).unwrap();
            }
        }
        let last = dir.path().join(format!("containers/0/{}.data", COUNT - 1));
        std::fs::File::options().write(true).open(last).unwrap().write_all_at(b"x", 150_000).unwrap();
        let mut places = Vec::new();
        for life in 0..60 {
            let node = node(dir.path(), period_ms);
            let scrub = runtime.spawn(run(Arc::clone(&node), 0));
            std::thread::sleep(Duration::from_millis(300));
            scrub.abort();
            assert!(runtime.block_on(scrub).is_err_and(|ended| ended.is_cancelled()), "it goes on for ever");
            let bad = node.copier.report(node.now()).bad;
            if let [bad] = &bad[..] {
                assert_eq!(bad.block, COUNT - 1);
                assert!(life > 0, "in one life");
                return;
            }
            let path = dir.path().join(FILE);
            places.push(Round::read(&path, node.wall(), Duration::from_millis(period_ms)).unwrap().next());
        }
        panic!("never found, the places were {places:?}");
    }
}
