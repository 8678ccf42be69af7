//! Membership of pipelines: the changes that `lead::MembershipRound` decides, proposed one after the other.

use super::error::RepairError;
use super::rules::rules;
use crate::core::Core;
use blocks::Command;
use lead::{MembershipRound, MembershipStep, Shortage, Turn};
use types::mutation::{self, Mutation};

/// Changes a round. What is left comes with the next.
const CHANGE_COUNT_MAX: usize = 50;

pub(super) async fn round(core: &Core) -> Result<(), RepairError> {
    loop {
        let rules_now = rules(core);
        let changed = core.leader().watch(rules_now);
        let Some((node, turn)) = changed else { break };
        match turn {
            Turn::Silent => tracing::warn!(%node, "datanode lost: no heartbeat within lost_after_ms"),
            Turn::Revoked => tracing::warn!(%node, "datanode lost: its certificates are revoked"),
            Turn::Returned => tracing::info!(%node, "lost datanode returned"),
        }
    }
    let rules_now = rules(core);
    let mut round = core
        .with_leader(|leader, _| MembershipRound::begin(&leader.cluster, &leader.repair, &leader.surplus, &rules_now));
    for _ in 0..CHANGE_COUNT_MAX {
        let Some(command) = next(core, &mut round) else { return Ok(()) };
        note_change(core, &command);
        if let Err(refused) = core.change_blocks(command).await? {
            tracing::debug!(%refused, "change of members superseded");
            return Ok(());
        }
    }
    Ok(())
}

/// The next change; `None` when all pipelines were looked at. The cluster is locked for one step at a time.
fn next(core: &Core, round: &mut MembershipRound) -> Option<Command> {
    loop {
        let rules = rules(core);
        let step = core.with_leader(|leader, random| round.step(&leader.cluster, &leader.repair, &rules, random));
        match step {
            MembershipStep::Propose(Command::Carve { .. }) if mutation::is(Mutation::WholePipelinesOnly) => {
                round.pass()
            }
            MembershipStep::Propose(command) => return Some(command),
            MembershipStep::Again => {}
            MembershipStep::Done(shortage) => {
                note(core, shortage);
                return None;
            }
        }
    }
}

/// Logged once, when room or datanodes begin to lack and when they do no more; the amount is in /metrics.
fn note(core: &Core, shortage: Shortage) {
    let before = core.leader().on_shortage(shortage);
    if Lacking::of(before) == Lacking::of(shortage) {
        return;
    }
    let (containers, lacking_len) = (shortage.container_count, shortage.len);
    match Lacking::of(shortage) {
        Lacking::Nothing => tracing::info!("all further copies have a place again"),
        Lacking::Datanodes => {
            tracing::error!(containers, "fewer live datanodes than copies wanted: start or add datanodes");
        }
        Lacking::Room => {
            tracing::error!(
                containers,
                lacking_len,
                "no room for further copies: add datanodes or disks, or delete files"
            );
        }
    }
}

/// What further copies wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lacking {
    Nothing,
    Datanodes,
    Room,
}

impl Lacking {
    fn of(shortage: Shortage) -> Self {
        match shortage {
            Shortage { len: 1.., .. } => Self::Room,
            Shortage { nodeless_count: 1.., .. } => Self::Datanodes,
            _ => Self::Nothing,
        }
    }
}

/// Logs what is about to change.
fn note_change(core: &Core, command: &Command) {
    let (pipeline, members) = match command {
        Command::SetMembers { pipeline, members, .. } => (pipeline, members),
        Command::Carve { from, containers, members, .. } => {
            tracing::warn!(pipeline = %from, containers = containers.len(), "pipeline carved");
            (from, members)
        }
        _ => {
            tracing::debug!(?command, "pipeline members unchanged");
            return;
        }
    };
    let before = core.with_cluster(|cluster, _| cluster.pipeline(*pipeline).map(|known| known.row.members.clone()));
    let before = before.unwrap_or_default();
    let came: Vec<_> = members.iter().filter(|id| !before.contains(id)).map(ToString::to_string).collect();
    let went: Vec<_> = before.iter().filter(|id| !members.contains(id)).map(ToString::to_string).collect();
    tracing::warn!(%pipeline, ?came, ?went, "pipeline membership changing");
}
