//! Blocks come back to as many copies as they should have: what `metad`'s repair does, around `blocks::{Repair,
//! Surplus}` and `Healing`.

use super::{Answer, Metad, REPLICATION};
use lead::MendRules;
use std::rc::Rc;
use std::time::Duration;
use types::{BlockId, ContainerId, NodeId};

// As in `metad`.
const ROUND_EACH: Duration = Duration::from_secs(1);
const ROUND_PAUSE: Duration = Duration::from_millis(100);
const LOST_AFTER: Duration = Duration::from_secs(15);
/// All containers one after the other; much slower in `metad`, for which a run is too short.
const AUDIT_EACH: Duration = Duration::from_secs(10);
/// A registered node's catalogue comes first.
pub(super) const CATALOGUE_WAIT: Duration = Duration::from_secs(2);

impl Metad {
    pub(super) async fn heal_always(self: Rc<Self>, reign: u64) {
        self.take_up();
        let mut audited = (self.now(), None);
        while self.reigns(reign) {
            self.audit(&mut audited);
            let _again = self.heal_round().await;
            self.sim.sleep(ROUND_PAUSE).await;
            let _told = self.sim.timeout(ROUND_EACH, self.repair_wake.notified()).await;
        }
    }

    fn take_up(&self) {
        let now = self.now();
        let _fallen = self.with_cluster(|cluster, _| {
            for (id, _) in cluster.pipelines().filter(|(_, pipeline)| !pipeline.row.joining.is_empty()) {
                cluster.containers_of(id).for_each(|home| self.repair.borrow_mut().suspect(home, now));
            }
        });
    }

    /// What a leader before this one knew only in its memory is found by this. The first leader must do without: what
    /// it hears of must be enough.
    fn audit(&self, (at, after): &mut (Duration, Option<ContainerId>)) {
        let now = self.now();
        if self.world.reign_count.get() > 1 && now >= *at + AUDIT_EACH {
            *at = now;
            *after = self.with_cluster(|cluster, _| cluster.container_after(*after)).ok().flatten();
            after.iter().for_each(|home| self.repair.borrow_mut().suspect(*home, now));
        }
    }

    async fn heal_round(self: &Rc<Self>) -> Answer<()> {
        self.compare().await?;
        self.read_reported().await;
        // Copies are made in safe mode, too; nothing moves and nothing goes.
        if !self.is_frozen() {
            self.resize().await?;
            self.settle_surplus().await?;
            self.balance_some().await?;
        }
        Ok(())
    }

    pub(super) fn rules(&self) -> MendRules {
        MendRules {
            now: self.now(),
            hearing_since: self.leader_since.get(),
            lost_after: LOST_AFTER,
            usual_replication: REPLICATION,
        }
    }

    pub(crate) fn needed_len_on(&self, node: NodeId) -> u64 {
        self.repair.borrow().needed_len_on(node)
    }

    /// What stands in the way of rest, for the story.
    pub(crate) fn tell_worries(&self) {
        let repair = self.repair.borrow();
        for missing in repair.missing() {
            let image = |number| {
                let platter = self.world.node_platter(number).borrow();
                let found = platter.shelf.get(&missing.block).map(|stored| ("shelved", stored.image().clone()));
                let found = found.or_else(|| Some(("open", platter.open.get(&missing.block)?.image().clone())));
                found.map(|(place, image)| {
                    (number, place, image.identity.generation, image.data.len(), image.sound_len())
                })
            };
            let found: Vec<_> = (0..self.world.plan.node_count).filter_map(image).collect();
            self.sim.say(|| format!("{missing:?}: {:?} on {found:?}", self.view_of(missing.block)));
        }
        repair.bad().for_each(|(block, node)| self.sim.say(|| format!("{block:?} is bad on {node:?}")));
        repair.lacks().for_each(|lack| self.sim.say(|| format!("{lack:?}")));
        let _fallen = self.with_cluster(|cluster, _| {
            for member in cluster.nodes() {
                let needed = repair.needed_len_on(member.node.id);
                self.sim.say(|| format!("{needed} bytes need room on {member:?}"));
            }
            let joined = cluster.joined_pipelines().filter_map(|id| Some((id, cluster.pipeline(id)?)));
            joined.for_each(|(id, pipeline)| self.sim.say(|| format!("{id}: {pipeline:?}")));
        });
    }

    pub(super) fn doubt(&self, block: BlockId) {
        self.repair.borrow_mut().doubt(block);
        self.repair_wake.notify();
    }
}
