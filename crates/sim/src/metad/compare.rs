//! What members should have against what they say they have: `lead::Comparison` decides; as `metad`'s comparing,
//! without the digests.

use super::{Answer, Metad};
use crate::executor::{Boxed, all};
use crate::world::{Mutation, World};
use blocks::Command;
use lead::{Answers, Comparison, Expected, Healing};
use namespace::BlockView;
use namespace::read::{self, Page, Place};
use std::rc::Rc;
use std::time::Duration;
use types::{BlockId, ContainerId, Epoch, Fitness, NodeId, PipelineId};

const ANSWER_MAX: Duration = Duration::from_secs(10);
const PAGE_COUNT: usize = 1000;
const CHECK_COUNT_MAX: usize = 200;

pub(super) fn expected(view: &BlockView) -> Expected {
    let BlockView { file, block, generation, len, home, complete, .. } = *view;
    Expected { block, generation, len, file, home, complete }
}

impl Metad {
    /// What decisions about copies rest on.
    pub(super) fn heal<T>(&self, run: impl FnOnce(&mut Healing<'_>) -> T) -> Answer<T> {
        let rules = self.rules();
        self.with_cluster(|cluster, _| {
            let (mut repair, mut surplus) = (self.repair.borrow_mut(), self.surplus.borrow_mut());
            run(&mut Healing { cluster, repair: &mut repair, surplus: &mut surplus, rules })
        })
    }

    pub(super) async fn compare(self: &Rc<Self>) -> Answer<()> {
        self.compare_doubted().await?;
        let mut whole = Vec::new();
        for _ in 0..CHECK_COUNT_MAX {
            let next = self.repair.borrow_mut().next_check(self.now());
            let Some(home) = next else { break };
            whole.extend(self.compare_container(home).await?.map(|(pipeline, epoch)| (home, pipeline, epoch)));
        }
        if !whole.is_empty() {
            let _overtaken = self.change_blocks(Command::Whole { containers: whole }).await?;
            self.repair_wake.notify();
        }
        Ok(())
    }

    async fn compare_doubted(self: &Rc<Self>) -> Answer<()> {
        let blocks = self.repair.borrow_mut().take_doubts(PAGE_COUNT);
        let found = self.look_up(blocks);
        let by_home = self.heal(|healing| healing.sort_doubts(found))?;
        for (home, blocks) in by_home {
            let members = self.heal(|healing| healing.members_to_ask(home))?;
            let answers = self.answers(&blocks, &members).await;
            self.heal(|healing| healing.on_doubted(&blocks, &members, &answers))?;
        }
        Ok(())
    }

    pub(crate) fn view_of(&self, block: BlockId) -> Option<BlockView> {
        let found = read::file_of_block(&*self.group.rows(), block).expect("memory can be read");
        found.map(|(_, view)| view)
    }

    pub(super) fn look_up(&self, blocks: impl IntoIterator<Item = BlockId>) -> Vec<(BlockId, Option<Expected>)> {
        blocks.into_iter().map(|block| (block, self.view_of(block).map(|view| expected(&view)))).collect()
    }

    /// The pipeline and epoch of which the container is whole, if that is news.
    async fn compare_container(self: &Rc<Self>, home: ContainerId) -> Answer<Option<(PipelineId, Epoch)>> {
        let begun = self.heal(|healing| Comparison::begin(home, healing))?;
        let Some(mut comparison) = begun else { return Ok(None) };
        let mut place = Some(Place::start(home));
        while let Some(from) = place {
            let page = read::container_page(&*self.group.rows(), home, from, PAGE_COUNT);
            let Page { blocks, open, next, .. } = page.expect("memory can be read");
            place = next;
            if self.world.mutation != Some(Mutation::ForgetChains) {
                comparison.on_open(&open, &mut self.repair.borrow_mut());
            }
            if !blocks.is_empty() {
                let blocks: Vec<Expected> = blocks.iter().map(expected).collect();
                let answers = self.answers(&blocks, comparison.members()).await;
                self.heal(|healing| comparison.on_list(&blocks, &answers, healing))?;
            }
            if !comparison.goes_on(&self.repair.borrow()) {
                break;
            }
        }
        let compared = self.heal(|healing| comparison.end(healing))?;
        let waits = self.world.mutation == Some(Mutation::WaitForMissing) && compared.missing > 0;
        Ok(compared.whole.filter(|_| !waits))
    }

    /// What each of the nodes says of each of the blocks.
    pub(super) async fn answers(self: &Rc<Self>, blocks: &[Expected], nodes: &[NodeId]) -> Answers {
        let asked: Rc<Vec<Expected>> = Rc::new(blocks.to_vec());
        let calls = nodes.iter().map(|id| {
            let (metad, id, asked) = (Rc::clone(self), *id, Rc::clone(&asked));
            let call: Boxed<(NodeId, Option<Vec<Fitness>>)> = Box::pin(async move {
                let number = World::node_number(id);
                let answer = metad.world.call_node(metad.host, number, ANSWER_MAX, move |node| {
                    Box::pin(async move { asked.iter().map(|wanted| node.fitness(wanted)).collect() })
                });
                (id, answer.await.ok())
            });
            call
        });
        Answers::new(blocks.len(), all(calls.collect()).await)
    }
}
