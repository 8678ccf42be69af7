//! What an administrator may ask for: nodes are emptied, everything is read, containers are spread anew. As `metad`'s
//! jobs.

use super::{Answer, LEASE_SOFT, Metad, Refused};
use crate::world::Mutation;
use blocks::{Command, Service};
use lead::{Balancing, Move, Scrub, Scrubbed};
use namespace::{NsError, QuotaChange, SetQuota, SetSafeMode, read, tables};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use types::rows::Table;
use types::{FsPath, NodeId};

/// Containers under way at a time.
const ACTIVE_COUNT_MAX: usize = 2;

/// Rows that stay as they are in safe mode.
pub(crate) type FrozenRows = BTreeMap<(Table, Vec<u8>), Vec<u8>>;

/// Work that was asked for, in the leader's memory.
#[derive(Default)]
pub(super) struct Administration {
    scrub: Option<Scrub>,
    scrub_count: u64,
    waiting: VecDeque<Move>,
    active: Vec<Move>,
}

impl Metad {
    pub(crate) async fn set_service(self: Rc<Self>, node: NodeId, service: Service) -> Answer<()> {
        let _unknown = self.change_blocks(Command::SetService { node, service }).await?;
        self.repair_wake.notify();
        self.prepare.notify();
        Ok(())
    }

    /// What clients can change, as it is when safe mode is on.
    pub(crate) async fn enter_safe_mode(self: Rc<Self>) -> Answer<FrozenRows> {
        self.change(None, SetSafeMode { on: true }).await?;
        Ok(self.frozen_rows())
    }

    /// The same at a later time.
    pub(crate) async fn see_frozen(self: Rc<Self>) -> Answer<FrozenRows> {
        self.group.read_barrier().await?;
        Ok(self.frozen_rows())
    }

    pub(crate) async fn leave_safe_mode(self: Rc<Self>) -> Answer<()> {
        self.change(None, SetSafeMode { on: false }).await.map(|_| ())
    }

    /// Whether nothing may be changed or deleted now.
    pub(super) fn is_frozen(&self) -> bool {
        let mode = read::safe_mode(&*self.group.rows()).expect("memory can be read");
        mode.is_some() && self.world.mutation != Some(Mutation::DeleteInSafeMode)
    }

    /// All of the namespace but what safe mode itself, its own retries and healing change.
    fn frozen_rows(&self) -> FrozenRows {
        let rows = self.group.rows();
        let is_frozen = |table: Table| {
            let may_change = [tables::RETRY, tables::RETRY_EXPIRY, tables::VISITOR, tables::SAFE_MODE].contains(&table);
            tables::ALL.contains(&table) && !may_change
        };
        let frozen = rows.iter().filter(|(table, ..)| is_frozen(*table));
        frozen.map(|(table, key, value)| ((table, key.to_vec()), value.to_vec())).collect()
    }

    /// Whether others have all that a node had that was to be emptied.
    pub(crate) async fn is_drained(self: Rc<Self>, node: NodeId) -> Answer<bool> {
        self.group.read_barrier().await?;
        let (now, rules) = (self.now(), self.rules());
        let undecided = self.undecided.borrow().has(node);
        let leased = self.leased.borrow().any_out(now);
        self.with_cluster(|cluster, _| {
            let drains = cluster.node(node).is_some_and(|member| member.service == Service::Draining);
            let picture = cluster.drain_picture(node, &rules, &self.repair.borrow());
            let mut surplus = self.surplus.borrow_mut();
            if !drains || picture.pipelines_left > 0 {
                surplus.is_in(node);
                return false;
            }
            if self.world.mutation == Some(Mutation::HastyDrain) {
                return true;
            }
            surplus.left_behind(node, undecided, leased.then_some(LEASE_SOFT), &self.repair.borrow(), now).is_none()
        })
    }

    /// `None`: no limit. A directory that is not there has none.
    pub(crate) async fn set_quota(self: Rc<Self>, path: FsPath, names: Option<u64>, space: Option<u64>) -> Answer<()> {
        let change = |limit: Option<u64>| limit.map_or(QuotaChange::Lift, QuotaChange::Set);
        let quota = SetQuota { path, names: change(names), space: change(space), of_type: None };
        match self.change(None, quota).await {
            Err(Refused::Namespace(NsError::NotFound(_))) => Ok(()),
            answer => answer.map(|_| ()),
        }
    }

    pub(crate) fn hears_all(&self) -> bool {
        let live_count = self.with_cluster(|cluster, _| cluster.live_count(self.now()));
        live_count.is_ok_and(|count| count == self.world.plan.node_count)
    }

    /// False: one is under way.
    pub(crate) async fn begin_scrub(self: Rc<Self>) -> Answer<bool> {
        self.group.read_barrier().await?;
        let nodes = self.with_cluster(|cluster, _| cluster.nodes().map(|member| member.node.id).collect::<Vec<_>>())?;
        let mut asked = self.asked.borrow_mut();
        if asked.scrub.is_some() {
            return Ok(false);
        }
        asked.scrub_count += 1;
        let number = self.leader_since.get().as_micros() as u64 + asked.scrub_count;
        asked.scrub = Some(Scrub::new(number, 0, 1, nodes));
        Ok(true)
    }

    /// All nodes have read what they have, or are lost, and what they found damaged is replaced, where there was a good
    /// copy.
    pub(crate) fn has_scrubbed(&self) -> bool {
        let rules = self.rules();
        let lost = self.with_cluster(|cluster, _| {
            let lost = cluster.nodes().filter(|member| rules.is_lost(Some(member)));
            lost.map(|member| member.node.id).collect::<Vec<_>>()
        });
        let mut asked = self.asked.borrow_mut();
        let Some(scrub) = asked.scrub.as_mut() else { return true };
        lost.unwrap_or_default().into_iter().for_each(|node| scrub.on_lost(node));
        let repair = self.repair.borrow();
        // A block whose file is open is not replaced: the file's recovery decides about it.
        let is_open = |block| self.view_of(block).is_some_and(|view| !view.complete);
        let comes = repair.bad().any(|(block, _)| !repair.is_missing(block) && !is_open(block));
        let over = scrub.is_read() && !comes;
        if over {
            asked.scrub = None;
        }
        over
    }

    /// What a node tells of its reading, and the scrub that it is to do.
    pub(super) fn scrub_beat(&self, node: NodeId, report: Option<(u64, Scrubbed)>) -> Option<u64> {
        let mut asked = self.asked.borrow_mut();
        let scrub = asked.scrub.as_mut()?;
        if let Some((_, scrubbed)) = report.filter(|(number, _)| *number == scrub.number) {
            scrub.on_report(node, scrubbed);
        }
        scrub.concerns(node).then_some(scrub.number)
    }

    pub(crate) async fn begin_balance(self: Rc<Self>) -> Answer<()> {
        self.group.read_barrier().await?;
        let rules = self.rules();
        let mut balancing = self.with_cluster(|cluster, _| Balancing::begin(cluster, &rules, 0))?;
        while !self.with_cluster(|cluster, _| balancing.step(cluster))? {}
        let moves = balancing.into_moves();
        let mut asked = self.asked.borrow_mut();
        if asked.waiting.is_empty() && asked.active.is_empty() {
            asked.waiting = moves.into();
            self.repair_wake.notify();
        }
        Ok(())
    }

    pub(super) async fn balance_some(&self) -> Answer<()> {
        loop {
            let next = self.with_cluster(|cluster, _| {
                let mut asked = self.asked.borrow_mut();
                asked.active.retain(|next| !cluster.has_moved(next));
                if asked.active.len() < ACTIVE_COUNT_MAX { asked.waiting.pop_front() } else { None }
            })?;
            let Some(next) = next else { return Ok(()) };
            let rules = self.rules();
            let Some(command) =
                self.with_cluster(|cluster, _| cluster.begin_move(&next, &self.repair.borrow(), &rules))?
            else {
                continue;
            };
            self.sim.say(|| format!("metad {}: {next:?}", self.number));
            if self.change_blocks(command).await?.is_ok() {
                self.repair.borrow_mut().suspect(next.container, self.now());
                self.asked.borrow_mut().active.push(next);
            }
            self.repair_wake.notify();
        }
    }
}
