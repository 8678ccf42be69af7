//! The audit of containers: every container is compared once in a period, whatever happens.
//!
//! Promise: each step queues at most [`STEP_COUNT_MAX`] containers, so a step is bounded. After a period of steps every
//! container had its turn. The first period is shorter, as an earlier leader knew some things only in its memory.

use crate::cluster::Cluster;
use crate::repair::Repair;
use std::time::Duration;
use types::ContainerId;

const PERIOD: Duration = Duration::from_secs(3600);
/// Containers queued in one look.
const STEP_COUNT_MAX: u64 = 1000;
const FIRST_PERIOD: Duration = Duration::from_secs(600);
/// And by so many a second at least: a small store is looked at in seconds.
const FIRST_COUNT_PER_S: u64 = 20;

/// How far the audit is.
#[derive(Debug, Default)]
pub(crate) struct ContainerAudit {
    /// The last look.
    looked: Option<Duration>,
    after: Option<ContainerId>,
    /// Containers that are due and not queued yet, in thousandths.
    owed_milli: u64,
    /// All were queued once.
    is_second: bool,
}

impl ContainerAudit {
    /// Queues what is due since the last look.
    pub(crate) fn step(&mut self, cluster: &Cluster, repair: &mut Repair, now: Duration) {
        let passed = now.saturating_sub(self.looked.replace(now).unwrap_or(now));
        let count = cluster.container_count() as u64;
        let (period, per_s) = if self.is_second { (PERIOD, 0) } else { (FIRST_PERIOD, FIRST_COUNT_PER_S) };
        let passed_ms = passed.as_millis() as u64;
        let owed_milli = (count * 1000 * passed_ms).div_ceil(period.as_millis() as u64);
        self.owed_milli += owed_milli.max((per_s * passed_ms).min(count * 1000));
        let wanted = (self.owed_milli / 1000).min(STEP_COUNT_MAX);
        self.owed_milli -= wanted * 1000;
        for _ in 0..wanted {
            let next = cluster.container_after(self.after);
            self.is_second |= next <= self.after;
            self.after = next;
            if let Some(home) = self.after {
                repair.suspect(home, now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leader::tests::{NOW, leader, node, rules};
    use blocks::{Command, Reply};
    use std::collections::BTreeSet;
    use types::PipelineId;

    /// A hundred containers: all have their turn within seconds, and then again in an hour.
    #[test]
    fn all_containers_have_their_turn_soon_and_then_within_the_period() {
        let mut leader = leader();
        for id in 2..=100 {
            let opened = Ok(Reply::Container(ContainerId(id)));
            leader.on_applied(&Command::OpenContainer { pipeline: PipelineId(1) }, &opened, rules());
        }
        assert_eq!(leader.cluster.member_ids(ContainerId(100)), [node(1), node(2)]);
        let mut audit = ContainerAudit::default();
        let mut now = NOW;
        audit.step(&leader.cluster, &mut leader.repair, now);
        let mut turns = |seconds: u64| {
            let mut queued = Vec::new();
            for _ in 0..seconds {
                now += Duration::from_secs(1);
                audit.step(&leader.cluster, &mut leader.repair, now);
                queued.extend(std::iter::from_fn(|| leader.repair.next_check(now)));
            }
            queued
        };
        let first = turns(5);
        assert_eq!((first.len(), first.iter().collect::<BTreeSet<_>>().len()), (100, 100));
        turns(1); // the second begins
        let second = turns(3600);
        assert_eq!((second.len(), second.iter().collect::<BTreeSet<_>>().len()), (100, 100));
    }
}
