//! A look at each disk every second: how much room it has, and whether it is there at all.
//!
//! Each look has a thread of its own: those of the pool may all be waiting for a disk that hangs, and the others would
//! seem to hang, too.

use super::{Disk, Disks};
use crate::node::Node;
use io::Clock;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

const LOOK_EACH: Duration = Duration::from_secs(1);

type Looked = Result<(), String>;

/// Watches one disk until it fails.
pub(crate) async fn run(node: Arc<Node>, number: usize) {
    let (mut was_full, mut is_noted) = (false, false);
    loop {
        let looked = look(&node, number).await;
        let disk: &Disk = &node.disks.disks()[number];
        let dir = disk.dir.display();
        if let Some(reason) = disk.volume.failure().filter(|_| disk.volume.is_full() && !is_noted) {
            is_noted = true;
            tracing::error!(%dir, reason, "disk is read-only now; its replicas still count");
            node.changes.came.notify_one();
        }
        if let Some(reason) = disk.volume.failure().filter(|_| !disk.volume.is_full()) {
            if node.disks.any_sound() {
                tracing::error!(%dir, reason, "a disk has failed; the node goes on without it");
            } else {
                tracing::error!(%dir, reason, "disk failed, and no other works: the node accepts no more writes");
            }
            // The metadata server hears it with the next heartbeat, and that is now.
            node.changes.came.notify_one();
            return;
        }
        if let Err(error) = looked {
            tracing::warn!(%dir, error, "a disk does not say how much room it has");
        }
        let is_full = disk.gauge().usage.remaining == 0;
        match (was_full, is_full) {
            (false, true) => {
                tracing::warn!(%dir, "disk is full: it accepts no new replicas until there is space again")
            }
            (true, false) => tracing::info!(%dir, "disk has space again"),
            _ => {}
        }
        was_full = is_full;
        tokio::time::sleep(LOOK_EACH).await;
    }
}

/// One look. A disk is given up after so many seconds of silence in which another one answered: what holds up all of
/// them, a controller or a machine that stood still, is no failure of any. The only one is waited for.
async fn look(node: &Arc<Node>, number: usize) -> Looked {
    let answer_max = Duration::from_millis(node.config.limits.disk_answer_ms);
    let disks = &node.disks;
    let mut answer = match begin(node, number) {
        Ok(answer) => answer,
        Err(error) => return Err(format!("no thread to look at it: {error}")),
    };
    let (mut silence, mut asked) = (Duration::ZERO, disks.inner.clock.monotonic());
    loop {
        if let Ok(looked) = tokio::time::timeout(LOOK_EACH, &mut answer).await {
            return looked.unwrap_or_else(|_panicked| Err("the look at it broke off".to_owned()));
        }
        if other_answered(disks, number, asked) {
            silence += LOOK_EACH;
        }
        if silence >= answer_max {
            let reason = format!("it has not answered for {} s", silence.as_secs());
            disks.give_up(number, reason.clone());
            return Err(reason);
        }
        asked = disks.inner.clock.monotonic();
    }
}

fn begin(node: &Arc<Node>, number: usize) -> std::io::Result<oneshot::Receiver<Looked>> {
    let (sender, receiver) = oneshot::channel();
    let at = Arc::clone(node);
    io::task::thread("disk look", move || {
        let looked = at.disks.disks()[number].look(&at.disks.inner.clock);
        drop(at);
        let _nobody_waits = sender.send(looked.map_err(|error| error.to_string()));
    })?;
    Ok(receiver)
}

fn other_answered(disks: &Disks, number: usize, since: Duration) -> bool {
    let others = disks.disks().iter().enumerate().filter(|(other, _)| *other != number);
    others.into_iter().any(|(_, disk)| disk.gauge().at > since)
}
