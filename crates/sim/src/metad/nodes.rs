//! What datanodes tell, and what they are told.

use super::repair::CATALOGUE_WAIT;
use super::{Answer, Metad, Refused};
use crate::datanode::{Heartbeat, Orders};
use crate::world::{Mutation, Process, World, node_of};
use lead::{Claim, Cluster, Fate, Standing, Told, Usage, Wanted};
use namespace::BlockView;
use std::rc::Rc;
use std::time::Duration;
use types::{BlockId, NodeId};

impl Metad {
    pub(crate) async fn register(self: Rc<Self>, process: Process, usage: Usage) -> Answer<()> {
        self.group.confirm().await?;
        let node = node_of(process);
        let id = node.id;
        let now = self.now();
        let since = self.receives();
        let claim = self.with_cluster(|cluster, _| cluster.claim(now, since, &node))?;
        if matches!(claim, Claim::InUse { .. }) && !self.believes_copies() {
            return Err(Refused::InUse);
        }
        let is_written = self.with_cluster(|cluster, _| cluster.node(id).is_some_and(|member| member.node == node))?;
        if !is_written || claim == Claim::Takes {
            self.change_blocks(blocks::Command::Register(node.clone())).await?.map_err(|_| Refused::Odd)?;
        }
        let now = self.now();
        let believes = self.believes_copies();
        let called_bad = self.with_cluster(|cluster, _| {
            if !cluster.on_claimed(&node) && !believes {
                return None;
            }
            cluster.on_registered(now, id, usage);
            let mut repair = self.repair.borrow_mut();
            let called_bad = repair.on_registered(id);
            for pipeline in cluster.pipelines_of(id) {
                cluster.containers_of(*pipeline).for_each(|home| repair.suspect(home, now + CATALOGUE_WAIT));
            }
            Some(called_bad)
        })?;
        let called_bad = called_bad.ok_or(Refused::Odd)?;
        self.reported.borrow_mut().extend(called_bad.into_iter().map(|block| (block, id)));
        self.repair_wake.notify();
        self.prepare.notify();
        Ok(())
    }

    /// A datanode's call was confirmed, so this member leads at this moment. Answers since when it receives them
    /// without a gap.
    fn receives(&self) -> Duration {
        let now = self.now();
        let mut reception = self.reception.get();
        reception.confirm(now, now);
        self.reception.set(reception);
        reception.since(now, now)
    }

    fn believes_copies(&self) -> bool {
        self.world.mutation == Some(Mutation::BelieveCopies)
    }

    /// False: it must register.
    fn is_current(&self, process: Process) -> Answer<bool> {
        let (id, now) = (World::node_id(process.number), self.now());
        let standing = |cluster: &Cluster| cluster.standing(now, id, process.incarnation, &process.xfer_addr());
        match self.with_cluster(|cluster, _| standing(cluster))? {
            _ if self.believes_copies() => Ok(true),
            Standing::Current => Ok(true),
            Standing::Unknown => Ok(false),
            Standing::Superseded { .. } => Err(Refused::Superseded),
        }
    }

    pub(crate) async fn heartbeat(self: Rc<Self>, told: Heartbeat) -> Answer<Option<Orders>> {
        let frozen_since = self.world.frozen_since.get();
        // A leader that fell would judge by what it does not know.
        self.group.confirm().await?;
        self.receives();
        let now = self.now();
        if !self.is_current(told.process)? {
            return Ok(None);
        }
        if !self.with_cluster(|cluster, _| cluster.on_heartbeat(now, told.node, told.usage))? {
            return Ok(None);
        }
        self.world.counts(told.process);
        self.tell_repair(&told);
        for bad in &told.bad {
            let (wanted, may_be_put) = (self.wanted(bad.0), self.leased.borrow().may_be_put(bad.0, now));
            self.heal(|healing| healing.on_bad_reported(*bad, told.node, wanted.as_ref(), may_be_put))?;
        }
        let mut orders = Orders::default();
        self.reconcile(told.node, told.put.into_iter().chain(told.stale).collect(), &mut orders)?;
        let frozen = self.is_frozen();
        let undecided = self.undecided.borrow().of(told.node);
        let kept_back = if frozen { Vec::new() } else { self.kept_back.borrow().of(told.node) };
        self.reconcile(told.node, undecided, &mut orders)?;
        self.reconcile(told.node, kept_back, &mut orders)?;
        let mut doomed = self.doomed.borrow_mut();
        for block in &told.deleted {
            doomed.on_deleted(told.node, *block);
            self.repair.borrow_mut().forget_bad(*block, told.node);
            self.surplus.borrow_mut().stays(told.node, *block);
        }
        if !frozen {
            orders.delete.extend(doomed.orders(told.node, now));
        }
        if !told.deleted.is_empty() {
            self.reap.notify();
        }
        if !frozen {
            let surplus = self.surplus_orders(told.node)?;
            orders.delete.extend(surplus.iter().map(|told| (told.block, told.generation)));
        }
        self.world.check_orders(told.node, &orders.delete, frozen_since);
        orders.copy = self.repair.borrow_mut().orders(told.node, now);
        orders.tell_all = self.surplus.borrow_mut().take_ask(told.node);
        orders.scrub = self.scrub_beat(told.node, told.scrub);
        Ok(Some(orders))
    }

    /// What a node copied, could not copy, and found damaged.
    fn tell_repair(&self, told: &Heartbeat) {
        let (node, now) = (told.node, self.now());
        let mut repair = self.repair.borrow_mut();
        for replica in &told.put {
            self.surplus.borrow_mut().stays(node, replica.block);
            repair.on_put(node, replica.block, replica.generation, now);
        }
        for failure in &told.copy_failures {
            if !repair.is_news(node, failure.number) {
                continue;
            }
            repair.on_failed(node, failure.block, failure.source, now);
            if let Some(source) = failure.source.filter(|_| failure.corrupt) {
                self.reported.borrow_mut().insert((failure.block, source));
            }
        }
        repair.on_working(node, &told.copying, now);
        if !(told.put.is_empty() && told.copy_failures.is_empty() && told.bad.is_empty()) {
            self.repair_wake.notify();
        }
    }

    pub(crate) fn wanted(&self, block: BlockId) -> Option<Wanted> {
        let BlockView { file, generation, home, complete, .. } = self.view_of(block)?;
        Some(Wanted { file, generation, home, complete })
    }

    pub(crate) async fn catalogue(self: Rc<Self>, process: Process, replicas: Vec<Told>) -> Answer<Option<Orders>> {
        let frozen_since = self.world.frozen_since.get();
        self.group.confirm().await?;
        if !self.is_current(process)? {
            return Ok(None);
        }
        let node = World::node_id(process.number);
        if !self.with_cluster(|cluster, _| cluster.node(node).is_some_and(|member| member.seen().is_some()))? {
            return Ok(None);
        }
        let mut orders = Orders::default();
        self.surplus.borrow_mut().on_telling(node, self.now());
        self.reconcile(node, replicas, &mut orders)?;
        self.surplus.borrow_mut().on_told_all(node);
        self.world.check_orders(node, &orders.delete, frozen_since);
        Ok(Some(orders))
    }

    fn reconcile(&self, node: NodeId, replicas: Vec<Told>, orders: &mut Orders) -> Answer<()> {
        let now = self.now();
        for told in replicas {
            // Before the rows: what is nobody's at this moment can only have an owner already.
            let may_be_put = self.leased.borrow().may_be_put(told.block, now);
            let wanted = self.wanted(told.block);
            let judgement = self.with_cluster(|cluster, _| cluster.judge(node, &told, wanted.as_ref(), may_be_put))?;
            if told.finalized {
                self.with_cluster(|cluster, _| cluster.on_confirmed_len(told.block, told.len))?;
            }
            if self.is_frozen() && judgement.fate == Fate::Goes {
                // Nothing is deleted in safe mode. The node reports it no second time, so it is judged again
                // afterwards.
                self.kept_back.borrow_mut().keep(node, told);
                self.undecided.borrow_mut().settle(node, &told);
                continue;
            }
            self.kept_back.borrow_mut().settle(node, &told);
            let mut again = judgement.again;
            if self.world.mutation == Some(Mutation::KeepRemoved)
                && self.with_cluster(|cluster, _| cluster.was_removed(told.block.born_in()))?
            {
                continue;
            }
            match (judgement.fate, wanted) {
                (Fate::Surplus, Some(_)) if self.comes_here(node, told.block)? => again = true,
                (Fate::Surplus, Some(wanted)) => {
                    self.surplus.borrow_mut().keep(node, told, wanted.home, now);
                    self.repair.borrow_mut().on_surplus(told.block);
                    self.repair_wake.notify();
                }
                (Fate::Goes, _) => orders.delete.push((told.block, told.generation)),
                (Fate::Owned, Some(wanted)) => orders.owners.push((told.block, wanted.file, wanted.home)),
                (Fate::Strange, _) => self.world.fail(|| format!("{:?} is strange to metad {}", told, self.number)),
                (Fate::Stays | Fate::Owned | Fate::Surplus, _) => {}
            }
            let mut undecided = self.undecided.borrow_mut();
            if again {
                undecided.keep(node, told);
            } else {
                undecided.settle(node, &told);
            }
        }
        Ok(())
    }
}
