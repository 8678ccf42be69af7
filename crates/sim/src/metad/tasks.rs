//! What a leader does by itself: prepares sets, has deleted blocks deleted, looks after leases.

use super::{Answer, LEASE_HARD, LEASE_SOFT, Metad, REPLICATION};
use crate::world::Mutation;
use lead::{Aftermath, SILENCE_MAX, Wakes};
use namespace::{BeginRecovery, DoubtCause, ForgetDoomed, RECOVERY_HOLDER, Reap, Recovery, RecoveryTarget, read};
use std::rc::Rc;
use std::time::Duration;
use types::NodeId;

const PAGE_COUNT: usize = 1000;

impl Metad {
    /// Looks after what was applied, also where nobody waits for it any more.
    pub(super) async fn follow_always(self: Rc<Self>, reign: u64) {
        let mut followed = self.group.followed();
        while self.reigns(reign) {
            let _fallen = self.follow();
            if followed.changed().await.is_err() {
                return;
            }
        }
    }

    pub(super) fn follow(&self) -> Answer<()> {
        let mut effects = self.group.take_effects();
        if self.world.mutation == Some(Mutation::ForgetShortPuts) {
            effects.doubts.retain(|doubt| doubt.cause != DoubtCause::Leased);
        }
        let now = self.now();
        let Wakes { reaper, doomed_rows, repair } = self.with_cluster(|cluster, _| {
            let (mut doomed, mut repair) = (self.doomed.borrow_mut(), self.repair.borrow_mut());
            let leased = self.leased.borrow();
            let mut aftermath = Aftermath { cluster, doomed: &mut doomed, repair: &mut repair, leased: &leased };
            aftermath.on_effects(&effects, now)
        })?;
        if doomed_rows {
            self.unfed.set(true);
        }
        if reaper {
            self.reap.notify();
        }
        if repair {
            self.repair_wake.notify();
        }
        Ok(())
    }

    pub(super) async fn prepare_always(self: Rc<Self>, reign: u64) {
        while self.reigns(reign) {
            loop {
                let lock = self.planning.borrow().clone();
                let _planning = lock.lock().await;
                let now = self.now();
                let next = self.with_cluster(|cluster, random| cluster.ahead(REPLICATION, now, random));
                let Ok(Some(command)) = next else { break };
                if !matches!(self.change_blocks(command).await, Ok(Ok(_))) {
                    break;
                }
            }
            let _told = self.sim.timeout(Duration::from_secs(1), self.prepare.notified()).await;
        }
    }

    pub(super) async fn reap_always(self: Rc<Self>, reign: u64) {
        while self.reigns(reign) {
            let _again = self.reap_round().await;
            self.sim.sleep(Duration::from_millis(200)).await;
            let _told = self.sim.timeout(Duration::from_secs(5), self.reap.notified()).await;
        }
    }

    async fn reap_round(&self) -> Answer<()> {
        let now = self.now();
        if now.saturating_sub(self.leader_since.get()) > SILENCE_MAX {
            let debtors: Vec<NodeId> = self.doomed.borrow().debtors().collect();
            let lost = self.with_cluster(|cluster, _| {
                let live = |id| cluster.node(id).is_some_and(|member| member.is_live(now));
                debtors.into_iter().filter(|id| !live(*id)).collect::<Vec<_>>()
            })?;
            for node in lost {
                self.doomed.borrow_mut().on_lost(node);
            }
        }
        if self.is_frozen() {
            return Ok(());
        }
        loop {
            let rows = self.doomed.borrow_mut().take_forgettable(PAGE_COUNT);
            if rows.is_empty() {
                break;
            }
            self.change(None, ForgetDoomed { blocks: rows }).await.inspect_err(|_| self.unfed.set(true))?;
        }
        if self.unfed.replace(false) {
            let page = read::doomed_blocks(&*self.group.rows(), None, 100_000).expect("memory can be read");
            self.with_cluster(|cluster, _| {
                let mut doomed = self.doomed.borrow_mut();
                page.into_iter().for_each(|block| doomed.feed(block, cluster.member_ids(block.home)));
            })?;
        }
        while read::has_deleted_trees(&*self.group.rows()).expect("memory can be read") {
            self.change(None, Reap { inodes_max: 1000 }).await?;
        }
        Ok(())
    }

    pub(super) async fn look_after_leases_always(self: Rc<Self>, reign: u64) {
        while self.reigns(reign) {
            let _again = self.look_after_leases().await;
            self.sim.sleep(Duration::from_secs(1)).await;
        }
    }

    async fn look_after_leases(self: &Rc<Self>) -> Answer<()> {
        let now = self.now();
        self.leased.borrow_mut().sweep(now);
        if self.is_frozen() {
            return Ok(());
        }
        let mut holders = self.leases.borrow().silent(now, LEASE_HARD);
        holders.retain(|holder| holder != RECOVERY_HOLDER);
        holders.push(RECOVERY_HOLDER.to_owned());
        for holder in holders {
            let files = read::lease_files(&*self.group.rows(), &holder, None, PAGE_COUNT).expect("memory can be read");
            if files.is_empty() {
                self.leases.borrow_mut().forget(&holder, now.saturating_sub(LEASE_HARD));
            }
            for file in files {
                if self.recoveries.borrow().contains_key(&file)
                    || !self.leases.borrow().may_be_taken(&holder, self.now(), LEASE_HARD)
                {
                    continue;
                }
                let begin = BeginRecovery { target: RecoveryTarget::File(file), holder: Some(holder.clone()) };
                if let Ok(namespace::Reply::Recovery(Recovery::Started { file, last, generation, .. })) =
                    self.change(None, begin).await
                {
                    self.start_recovery(file, last, generation);
                }
            }
        }
        let silent = self.leases.borrow().silent(now, LEASE_SOFT);
        for holder in silent {
            let idle = read::lease_files(&*self.group.rows(), &holder, None, 1).expect("memory can be read").is_empty();
            if idle {
                self.leases.borrow_mut().forget(&holder, now.saturating_sub(LEASE_SOFT));
            }
        }
        Ok(())
    }
}
