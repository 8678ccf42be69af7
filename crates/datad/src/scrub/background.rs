//! Reads all replicas of one disk within a period, again and again.
//!
//! Promise: it goes on where it was after a restart or an error, and reads at most `scrub_len_per_s` bytes a second. It
//! rests while a scrub that was ordered is under way, and while more damage is known than can be told.

use super::pages::{STEP_COUNT, verify};
use super::round::Round;
use super::scrubber::Scrubber;
use crate::contents::Contents;
use crate::rate_limit::PAUSE_MAX;
use crate::replicas::Replicas;
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

/// How fast replicas are read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    /// All within this time; zero for never.
    pub(crate) period: Duration,
    /// Bytes of each disk; 0 for never.
    pub(crate) len_per_s: u64,
}

struct Background {
    replicas: Arc<Replicas>,
    contents: Arc<Contents>,
    /// Passes that are ordered: the background rests meanwhile.
    scrubber: Arc<Scrubber>,
    disk: usize,
    path: PathBuf,
    rate: Rate,
    round: Round,
    saved_at: Duration,
}

pub(crate) async fn run(
    replicas: Arc<Replicas>,
    contents: Arc<Contents>,
    scrubber: Arc<Scrubber>,
    rate: Rate,
    disk: usize,
) {
    let period = rate.period;
    if period.is_zero() || rate.len_per_s == 0 {
        return;
    }
    let path = replicas.disks.disks()[disk].dir().join(FILE);
    let round = loop {
        let (path, now) = (path.clone(), replicas.wall());
        match replicas.disks.for_disk(disk, move |_| Round::read(&path, now, period)).await {
            Ok(Ok(round)) => break round,
            Ok(Err(error)) => {
                let dir = replicas.disks.disks()[disk].dir().display();
                tracing::warn!(%dir, %error, "the place of the background scrub does not read; a round begins");
                break Round::new(now);
            }
            Err(_hangs) => tokio::time::sleep(PAUSE_AFTER_ERROR).await,
        }
    };
    let saved_at = replicas.now();
    let mut background = Background { replicas, contents, scrubber, disk, path, rate, round, saved_at };
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
        let (now, used_len) = (self.replicas.wall(), self.replicas.disks.disks()[self.disk].used_len());
        self.round.keep_up(now, used_len, self.rate.period);
        self.round.is_due(now, used_len, self.rate.period)
    }

    async fn wait_until_due(&mut self) {
        while !self.is_due() || self.replicas.disks.is_failed(self.disk) {
            tokio::time::sleep(LOOK_EACH).await;
        }
    }

    /// Reads what is due of one page.
    async fn read(&mut self) -> Result<(), ReplicaError> {
        let (from, disk) = (self.round.next(), self.disk);
        let page =
            self.replicas.disks.for_disk(disk, move |disks| disks.disks()[disk].volume().replicas(from, STEP_COUNT));
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
            self.round.end(self.replicas.wall(), self.rate.period);
            self.contents.forget_all();
            self.publish();
        }
        Ok(())
    }

    async fn look(&mut self, info: &ReplicaInfo) -> Result<(), ReplicaError> {
        while self.scrubber.is_running() || self.replicas.node.with(|node| node.damage.is_full()) {
            tokio::time::sleep(PAUSE_MAX).await;
        }
        let (block, mut len) = (info.identity.block, 0);
        if info.state == ReplicaState::Finalized {
            match verify(&self.replicas, block).await {
                Err(error @ ReplicaError::Hangs) => return Err(error),
                // What was damage is told.
                _ => len = info.len,
            }
        }
        self.round.pass(block, len, self.replicas.wall());
        self.publish();
        tokio::time::sleep(Duration::from_secs_f64(len as f64 / self.rate.len_per_s as f64)).await;
        Ok(())
    }

    /// For those who ask how the disk is.
    fn publish(&self) {
        self.replicas.disks.disks()[self.disk].set_unread_since(self.round.oldest_unread());
    }

    async fn save(&mut self) {
        let now = self.replicas.now();
        if now.saturating_sub(self.saved_at) < SAVE_EACH
            || self.replicas.disks.disks()[self.disk].volume().failure().is_some()
        {
            return;
        }
        self.saved_at = now;
        let (round, path) = (self.round.clone(), self.path.clone());
        let written = self.replicas.disks.for_disk(self.disk, move |_| round.write(&path)).await;
        if let Ok(Err(error)) = written {
            tracing::warn!(path = %self.path.display(), %error, "the place of the background scrub is not written");
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "what it waits for happens on other threads")]
mod tests {
    use super::*;
    use crate::stop::Stop;
    use container::{Identity, Options};
    use std::os::unix::fs::FileExt;
    use types::checksum::{ChecksumKind, ChecksumSpec};
    use types::{BlockId, ContainerId, Generation, InodeId};

    const COUNT: u64 = 40;

    fn replicas(dir: &std::path::Path) -> Arc<Replicas> {
        let options = Options { reserved_len: Some(0), ..Options::default() };
        // A look of the life before may still be under way.
        let disks = (0..200).find_map(|_| {
            std::thread::sleep(Duration::from_millis(50));
            disks::open(&[dir.to_owned()], &options).ok()
        });
        let disks = disks.expect("nobody has the directory for long");
        Arc::new(Replicas::new(disks, 1, io::SystemClock::new()))
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
        let period = Duration::from_secs(3);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        {
            let replicas = replicas(dir.path());
            for index in 0..COUNT {
                let mut writer = replicas.disks.create(identity(index)).unwrap();
                writer.write(0, &[index as u8; 300_000], &[]).unwrap();
                writer.put(300_000).unwrap();
            }
        }
        let last = dir.path().join(format!("containers/0/{}.data", COUNT - 1));
        std::fs::File::options().write(true).open(last).unwrap().write_all_at(b"x", 150_000).unwrap();
        let mut places = Vec::new();
        for life in 0..60 {
            let replicas = replicas(dir.path());
            let stop = Arc::new(Stop::new().unwrap());
            let contents = Arc::new(Contents::new(Arc::clone(&replicas), Arc::clone(&stop)));
            let scrubber = Arc::new(Scrubber::new(Arc::clone(&replicas), Arc::clone(&contents), stop));
            let rate = Rate { period, len_per_s: 32 << 20 };
            let scrub = runtime.spawn(run(Arc::clone(&replicas), contents, scrubber, rate, 0));
            std::thread::sleep(Duration::from_millis(300));
            scrub.abort();
            assert!(runtime.block_on(scrub).is_err_and(|ended| ended.is_cancelled()), "it goes on for ever");
            let bad = replicas.node.with(|node| node.damage.report(replicas.now()));
            if let [bad] = &bad[..] {
                assert_eq!(bad.block, COUNT - 1);
                assert!(life > 0, "in one life");
                return;
            }
            let path = dir.path().join(FILE);
            places.push(Round::read(&path, replicas.wall(), period).unwrap().next());
        }
        panic!("never found, the places were {places:?}");
    }
}
