//! Pipelines get the members that `lead::Mending` wants, in a task of its own.

use super::{Answer, Metad};
use crate::world::Mutation;
use blocks::Command;
use lead::{MendStep, Mending};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;
use types::NodeId;

// As in `metad`.
const MEMBERS_EACH: Duration = Duration::from_millis(500);
const CHANGE_COUNT_MAX: usize = 50;

impl Metad {
    pub(super) async fn mend_always(self: Rc<Self>, reign: u64) {
        let mut lost = BTreeSet::new();
        while self.reigns(reign) {
            while let Ok(Some(_)) = self.heal(|healing| healing.watch(&mut lost)) {}
            let _again = self.mend().await;
            self.sim.sleep(MEMBERS_EACH).await;
        }
    }

    async fn mend(&self) -> Answer<()> {
        let rules = self.rules();
        let mut mending = self.with_cluster(|cluster, _| Mending::begin(cluster, &self.repair.borrow(), &rules))?;
        for _ in 0..CHANGE_COUNT_MAX {
            let Some(command) = self.next_change(&mut mending)? else { return Ok(()) };
            let before = self.members_before(&command)?;
            self.sim.say(|| format!("metad {}: {command:?}", self.number));
            if self.change_blocks(command.clone()).await?.is_err() {
                return Ok(());
            }
            self.heal(|healing| healing.on_members(&command, &before))?;
        }
        self.repair_wake.notify();
        Ok(())
    }

    /// `None` when all pipelines were looked at.
    fn next_change(&self, mending: &mut Mending) -> Answer<Option<Command>> {
        loop {
            let (rules, repair) = (self.rules(), self.repair.borrow());
            match self.with_cluster(|cluster, random| mending.step(cluster, &repair, &rules, random))? {
                MendStep::Propose(Command::Carve { .. })
                    if self.world.mutation == Some(Mutation::WholePipelinesOnly) =>
                {
                    mending.pass();
                }
                MendStep::Propose(command) => return Ok(Some(command)),
                MendStep::Again => {}
                MendStep::Done(shortage) => {
                    self.shortage.set(shortage);
                    return Ok(None);
                }
            }
        }
    }

    fn members_before(&self, command: &Command) -> Answer<Vec<NodeId>> {
        let (Command::SetMembers { pipeline, .. } | Command::Carve { from: pipeline, .. }) = command else {
            return Ok(Vec::new());
        };
        let before = self.with_cluster(|cluster, _| cluster.pipeline(*pipeline).map(|known| known.row.members.clone()));
        Ok(before?.unwrap_or_default())
    }
}
