//! Keys of tokens: the leader begins rings and rolls them when they are due. `lead::KeyRings` decides.

use crate::command;
use crate::core::Core;
use crate::task_fault::rest_after_fault;
use io::time::sleep;
use raft::RaftError;
use security::keys::Lifetimes;
use security::rings::RingKind;
use std::sync::Arc;
use std::time::Duration;

/// Between two looks. The next key is known to all for a whole interval before, so nobody waits for it.
const LOOK_EACH: Duration = Duration::from_secs(1);
/// Where the first keys wait for all members to say that they know the form: so do writers.
const LEVEL_EACH: Duration = Duration::from_millis(100);

pub(crate) async fn run(core: Arc<Core>) {
    if wanted(&core).next().is_none() {
        // The configuration does not change while the server runs.
        return std::future::pending().await;
    }
    let mut was_level_high = true;
    loop {
        let mut is_level_high = true;
        for (kind, lifetimes) in wanted(&core) {
            match core.raise_level(command::KEY_RINGS).await {
                Ok(true) => rest_after_fault(roll(&core, kind, lifetimes).await).await,
                Ok(false) => is_level_high = false,
                Err(error) => rest_after_fault(Err(error)).await,
            }
        }
        if was_level_high && !is_level_high {
            tracing::warn!(
                "no keys of tokens, and no block tokens asked for, until all members answered that they know them"
            );
        }
        was_level_high = is_level_high;
        sleep(if is_level_high { LOOK_EACH } else { LEVEL_EACH }).await;
    }
}

/// The rings that this store is to have.
fn wanted(core: &Core) -> impl Iterator<Item = (RingKind, Lifetimes)> + use<> {
    let block = core.config.block_token_lifetimes().map(|lifetimes| (RingKind::BlockTokens, lifetimes));
    let delegation = core.config.security.delegation_token_lifetimes();
    block.into_iter().chain(delegation.map(|lifetimes| (RingKind::DelegationTokens, lifetimes)))
}

/// Proposes what is due.
async fn roll(core: &Core, kind: RingKind, lifetimes: Lifetimes) -> Result<(), RaftError> {
    let now = core.now();
    let due = core.with_leader(|leader, random| leader.keys.due(kind, lifetimes, now, random));
    let Some(command) = due else { return Ok(()) };
    match core.change_rings(command).await? {
        Ok(()) => {
            let leader = core.leader();
            let (key, revision) = leader
                .keys
                .ring(kind)
                .map_or_else(Default::default, |ring| (ring.current().id.0, ring.keys().revision()));
            drop(leader);
            tracing::info!(%kind, key, revision, "another key signs");
        }
        Err(refused) => tracing::warn!(%kind, %refused, "keys not rolled"),
    }
    Ok(())
}
