//! Replicas that belong nowhere, and replicas that somebody called bad: both are asked about before anything is done.

use super::{Answer, Metad};
use crate::world::World;
use lead::{Clearance, Fate, Told, Wanted};
use std::rc::Rc;
use std::time::Duration;
use types::{BlockId, ContainerId, Fitness, NodeId};

const VERIFY_MAX: Duration = Duration::from_secs(120);
const VERIFY_COUNT: usize = 4;
const ROUND_COUNT: usize = 50;

impl Metad {
    /// A reader met a replica that does not match its checksums.
    pub(crate) async fn report_bad(self: Rc<Self>, block: BlockId, node: NodeId) -> Answer<()> {
        self.group.read_barrier().await?;
        self.reported.borrow_mut().insert((block, node));
        self.repair_wake.notify();
        Ok(())
    }

    /// Replicas that somebody called bad are read, and those that are all there is of a block again, now and then.
    pub(super) async fn read_reported(self: &Rc<Self>) {
        for _ in 0..VERIFY_COUNT {
            let reported = self.reported.borrow_mut().pop_first();
            let next = reported.or_else(|| self.repair.borrow_mut().take_bad_alone(self.now(), |_| true));
            let Some((block, node)) = next else { break };
            self.verify(block, node).await;
        }
    }

    pub(super) async fn settle_surplus(self: &Rc<Self>) -> Answer<()> {
        self.surplus.borrow_mut().expire(self.now());
        for _ in 0..ROUND_COUNT {
            let next = self.surplus.borrow_mut().next(self.now());
            let Some(home) = next else { break };
            self.ask_for_surplus(home).await?;
        }
        Ok(())
    }

    async fn ask_for_surplus(self: &Rc<Self>, home: ContainerId) -> Answer<()> {
        let mut clearance = Clearance::begin(home, &self.surplus.borrow());
        let found = self.look_up(clearance.blocks());
        let nodes = self.heal(|healing| clearance.on_found(found, healing))?;
        let answers = self.answers(clearance.asked(), &nodes).await;
        let _goes = self.heal(|healing| clearance.on_answers(&answers, healing))?;
        Ok(())
    }

    async fn verify(&self, block: BlockId, id: NodeId) {
        let Some(view) = self.view_of(block) else {
            self.repair.borrow_mut().forget_block(block);
            return;
        };
        let number = World::node_number(id);
        let answer = self.world.call_node(self.host, number, VERIFY_MAX, move |node| {
            Box::pin(async move { node.verify(block, view.generation).await })
        });
        match answer.await {
            Ok(Fitness::Absent) => {
                self.repair.borrow_mut().forget_bad(block, id);
                self.doubt(block);
            }
            Ok(Fitness::Unfit) => {
                self.repair.borrow_mut().on_bad(block, id, view.generation);
                self.repair_wake.notify();
            }
            Ok(Fitness::Fit) => _ = self.repair.borrow_mut().reads_well(block, id),
            Ok(Fitness::Readable | Fitness::Busy) | Err(_) => {}
        }
    }

    /// True if the block is being copied to a container that `node` is a member of.
    pub(super) fn comes_here(&self, node: NodeId, block: BlockId) -> Answer<bool> {
        self.with_cluster(|cluster, _| {
            let repair = self.repair.borrow();
            repair.wants(node, block) || repair.moving_to(block).is_some_and(|home| cluster.is_member(home, node))
        })
    }

    /// Whether a member that should have the block instead of `node` is known to have a damaged replica.
    fn is_doubtful(&self, node: NodeId, told: &Told, wanted: &Wanted) -> bool {
        let members = self.with_cluster(|cluster, _| cluster.member_ids(wanted.home).to_vec()).unwrap_or_default();
        let mut others = members.into_iter().filter(|member| *member != node);
        others.any(|member| self.repair.borrow().is_bad(told.block, member, wanted.generation))
    }

    /// Surplus replicas that others have said to have. Each is judged again: its block may have moved here since.
    pub(super) fn surplus_orders(&self, node: NodeId) -> Answer<Vec<Told>> {
        let going = self.surplus.borrow_mut().orders(node, self.now());
        let mut orders = Vec::new();
        for told in going {
            let wanted = self.wanted(told.block);
            let fate = self.with_cluster(|cluster, _| cluster.judge(node, &told, wanted.as_ref(), true))?.fate;
            // It had a file when it was kept. If it has none now, that was deleted, and no other ever gets the block.
            let goes = wanted.is_none() || fate == Fate::Surplus;
            if let Some(wanted) = wanted.as_ref().filter(|wanted| self.is_doubtful(node, &told, wanted)) {
                // One of those who said that they have it has not: all of them are asked again.
                self.surplus.borrow_mut().stays(node, told.block);
                self.surplus.borrow_mut().keep(node, told, wanted.home, self.now());
            } else if goes && !self.comes_here(node, told.block)? {
                orders.push(told);
            } else {
                self.surplus.borrow_mut().stays(node, told.block);
            }
        }
        Ok(orders)
    }
}
