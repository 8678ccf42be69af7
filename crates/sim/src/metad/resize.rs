//! Files whose replication was changed: their blocks move, under their ids, into containers of that replication;
//! `lead::Resizing` decides, as in `metad`.

use super::compare::expected;
use super::{Answer, Metad};
use lead::{Expected, Plan, Resizing, Transfer};
use namespace::{BlockMove, ForgetResized, MoveBlocks, read};
use std::rc::Rc;
use std::time::Duration;
use types::{ContainerId, FileId};

const FILE_COUNT: usize = 100;
const PAGE_COUNT: usize = 500;
const PROPOSAL_COUNT_MAX: usize = 6;
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(300);

impl Metad {
    pub(super) async fn resize(self: &Rc<Self>) -> Answer<()> {
        let files = read::resized_files(&*self.group.rows(), None, FILE_COUNT).expect("memory can be read");
        for file in files {
            let now = self.now();
            if self.resting.borrow().get(&file).is_some_and(|until| *until > now) {
                continue;
            }
            if !self.resize_file(file).await? {
                self.resting.borrow_mut().insert(file, self.now() + LOOK_AGAIN_AFTER);
            }
        }
        let now = self.now();
        self.resting.borrow_mut().retain(|_, until| *until > now);
        Ok(())
    }

    /// True: nothing is left to do for the file.
    async fn resize_file(self: &Rc<Self>, file: FileId) -> Answer<bool> {
        let mut offset = Some(0);
        let mut resizing = Resizing::default();
        while let Some(from) = offset {
            let found = read::file_replicas(&*self.group.rows(), file, from, PAGE_COUNT).expect("memory can be read");
            let Some(found) = found else { break };
            offset = found.next_offset;
            let blocks = found.blocks.iter().map(expected);
            let by_home = self.heal(|healing| resizing.on_page(found.replication, found.is_open, blocks, healing))?;
            for (home, blocks) in by_home {
                if let Some(to) = self.target_of(home, &resizing, &blocks).await? {
                    self.move_to(home, to, &blocks).await?;
                }
            }
        }
        if resizing.is_done() {
            self.change(None, ForgetResized { file, replication: resizing.replication() }).await?;
        }
        Ok(resizing.is_done())
    }

    /// The container that takes blocks of `home`.
    async fn target_of(
        &self,
        home: ContainerId,
        resizing: &Resizing,
        blocks: &[Expected],
    ) -> Answer<Option<ContainerId>> {
        for _ in 0..PROPOSAL_COUNT_MAX {
            let now = self.now();
            let plan = self.with_cluster(|cluster, random| {
                resizing.target(home, blocks, cluster, &self.repair.borrow(), now, random)
            })?;
            match plan {
                Ok(Plan::Use(to)) => return Ok(Some(to)),
                Ok(Plan::Propose(command)) => {
                    let _overtaken = self.change_blocks(command).await?;
                }
                Err(_) => return Ok(None),
            }
        }
        Ok(None)
    }

    async fn move_to(self: &Rc<Self>, from: ContainerId, to: ContainerId, blocks: &[Expected]) -> Answer<()> {
        let (mut transfer, nodes) = self.heal(|healing| {
            let transfer = Transfer::begin(from, to, blocks, healing);
            let nodes = transfer.to_ask(healing);
            (transfer, nodes)
        })?;
        let answers = self.answers(blocks, &nodes).await;
        self.heal(|healing| transfer.on_answers(blocks, &answers, healing))?;
        if transfer.ready().is_empty() {
            return Ok(());
        }
        let one = |wanted: &Expected| BlockMove { block: wanted.block, generation: wanted.generation, from, to };
        self.change(None, MoveBlocks { moves: transfer.ready().iter().map(one).collect() }).await?;
        for Expected { block, .. } in transfer.ready() {
            self.sim.say(|| format!("metad {}: {block:?} moved from {from:?} to {to:?}", self.number));
        }
        self.heal(|healing| transfer.on_moved(healing))
    }
}
