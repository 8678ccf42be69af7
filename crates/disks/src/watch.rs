//! A probe of each disk every second: how much room it has, and whether it is there at all.
//!
//! Each probe has a thread of its own: those of the pool may all be waiting for a disk that hangs, and the others would
//! seem to hang, too.

use crate::disk::Disk;
use crate::disks::Disks;
use io::Clock;
use std::time::Duration;
use tokio::sync::oneshot;

const PROBE_INTERVAL: Duration = Duration::from_secs(1);

type Probed = Result<(), String>;

/// Watches one disk until it fails, which is when `on_failure` is called, or it takes no more. `answer_max`: how long
/// it may be silent.
pub async fn watch(disks: Disks, number: usize, answer_max: Duration, on_failure: impl Fn()) {
    let (mut was_full, mut is_noted) = (false, false);
    loop {
        let probed = probe(&disks, number, answer_max).await;
        let disk: &Disk = &disks.disks()[number];
        let dir = disk.dir().display();
        if let Some(reason) = disk.volume().failure().filter(|_| disk.volume().is_full() && !is_noted) {
            is_noted = true;
            tracing::error!(%dir, reason, "disk is read-only now; its replicas still count");
            on_failure();
        }
        if let Some(reason) = disk.volume().failure().filter(|_| !disk.volume().is_full()) {
            if disks.any_sound() {
                tracing::error!(%dir, reason, "a disk has failed; the node goes on without it");
            } else {
                tracing::error!(%dir, reason, "disk failed, and no other works: the node accepts no more writes");
            }
            // The metadata server hears it with the next heartbeat, and that is now.
            on_failure();
            return;
        }
        if let Err(error) = probed {
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
        tokio::time::sleep(PROBE_INTERVAL).await;
    }
}

/// One probe. A disk is declared failed after so many seconds of silence in which another one answered: what holds up
/// all of them, a controller or a machine that stood still, is no failure of any. The only one is waited for.
async fn probe(disks: &Disks, number: usize, answer_max: Duration) -> Probed {
    let mut answer = match begin(disks, number) {
        Ok(answer) => answer,
        Err(error) => return Err(format!("no thread to probe it: {error}")),
    };
    let (mut silence, mut asked) = (Duration::ZERO, disks.clock().monotonic());
    loop {
        if let Ok(probed) = tokio::time::timeout(PROBE_INTERVAL, &mut answer).await {
            return probed.unwrap_or_else(|_panicked| Err("the probe broke off".to_owned()));
        }
        if other_answered(disks, number, asked) {
            silence += PROBE_INTERVAL;
        }
        if silence >= answer_max {
            let reason = format!("it has not answered for {} s", silence.as_secs());
            disks.declare_failed(number, reason.clone());
            return Err(reason);
        }
        asked = disks.clock().monotonic();
    }
}

fn begin(disks: &Disks, number: usize) -> std::io::Result<oneshot::Receiver<Probed>> {
    let (sender, receiver) = oneshot::channel();
    let disks = disks.clone();
    io::task::thread("disk probe", move || {
        let probed = disks.disks()[number].probe(disks.clock());
        drop(disks);
        let _nobody_waits = sender.send(probed.map_err(|error| error.to_string()));
    })?;
    Ok(receiver)
}

fn other_answered(disks: &Disks, number: usize, since: Duration) -> bool {
    let others = disks.disks().iter().enumerate().filter(|(other, _)| *other != number);
    others.into_iter().any(|(_, disk)| disk.gauge().at > since)
}
