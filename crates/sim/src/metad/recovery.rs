//! The writer is gone: its last block gets one length.

use super::{Answer, Metad};
use crate::datanode::Datanode;
use crate::executor::{Boxed, all};
use crate::net::CallError;
use crate::volume::Info;
use crate::world::{Mutation, World};
use lead::{Hearing, Inquest, Next, Shown, Step, Survivor};
use namespace::{BlockView, FinishRecovery, read};
use std::rc::Rc;
use std::time::Duration;
use types::{BlockId, FileId, Fitness, Generation, NodeId};

const RETRY_FIRST: Duration = Duration::from_millis(200);
const RETRY_LAST: Duration = Duration::from_secs(15);
const ANSWER_MAX: Duration = Duration::from_secs(10);
const READ_MAX: Duration = Duration::from_secs(120);

impl Metad {
    pub(super) fn start_recovery(self: &Rc<Self>, file: FileId, last: BlockView, generation: Generation) {
        let running = self.recoveries.borrow().get(&file).copied();
        if running.is_some_and(|running| running >= generation) {
            return;
        }
        self.recoveries.borrow_mut().insert(file, generation);
        let metad = Rc::clone(self);
        self.sim.spawn(self.host, async move {
            metad.recover(file, last, generation).await;
            let mut running = metad.recoveries.borrow_mut();
            if running.get(&file) == Some(&generation) {
                running.remove(&file);
            }
            drop(running);
            metad.recovery_ended.notify();
        });
    }

    async fn recover(self: &Rc<Self>, file: FileId, last: BlockView, generation: Generation) {
        let begun = self.now();
        let reign = self.group.reign();
        let mut retry = RETRY_FIRST;
        let overtaken = || {
            self.recoveries.borrow().get(&file) != Some(&generation) || self.group.reign() != reign || reign.is_none()
        };
        while !overtaken() {
            let damaged = self.world.damaged_on(last.block);
            let Ok((step, hearing)) = self.inquire(&last, generation, begun).await else { return };
            let mut nodes = Vec::new();
            let len = match step {
                Step::Wait(_) => {
                    self.sim.sleep(retry).await;
                    retry = (retry * 2).min(RETRY_LAST);
                    continue;
                }
                Step::Nothing => None,
                Step::Finish(agreed) => {
                    let len = agreed.len as usize;
                    let finish = self.ask_all(&agreed.nodes, ANSWER_MAX, move |node, block| {
                        Box::pin(async move { node.finish_recovery(block, generation, len).await })
                    });
                    let answers = finish(last.block).await.into_iter();
                    nodes.extend(answers.filter(|(_, answer)| answer.is_some()).map(|(node, _)| node));
                    let unread = hearing.to_be_read(&agreed, &nodes);
                    if nodes.is_empty() || !self.is_one_fit(&unread, last.block, generation).await {
                        self.sim.sleep(retry).await;
                        return;
                    }
                    Some(agreed.len)
                }
            };
            let finish = FinishRecovery { file, block: last.block, generation, len };
            // Who took no part, or could not end it, is stale from the moment that this comes about, which may be when
            // nobody here hears of it any more.
            if !nodes.is_empty() {
                self.world.was_recovered(file, last.block, &nodes, &damaged);
            }
            let _overtaken = self.change(None, finish).await;
            return;
        }
    }

    async fn inquire(&self, last: &BlockView, generation: Generation, begun: Duration) -> Answer<(Step, Hearing)> {
        let cut = read::cut_len(&*self.group.rows(), last.block).expect("memory can be read");
        let inquest = Inquest { generation: last.generation, len: last.len, cut };
        let ids = self.with_cluster(|cluster, _| cluster.member_ids(last.home).to_vec())?;
        let mut hearing = Hearing::new(inquest, self.show(last.block, &ids, generation).await);
        loop {
            // Together with the time that the answers took.
            let next = hearing.next(self.now().saturating_sub(begun));
            self.sim.say(|| format!("recovery of {:?} under {generation}: {hearing:?}: {next:?}", last.block));
            match next {
                Next::AskOthers if self.world.mutation == Some(Mutation::ForgetChains) => {
                    hearing.others_said(Vec::new());
                }
                Next::AskOthers => {
                    let known = |id: &NodeId| !ids.contains(id);
                    let others = self.with_cluster(|cluster, _| {
                        cluster.nodes().map(|member| member.node.id).filter(known).collect::<Vec<_>>()
                    })?;
                    hearing.others_said(self.show(last.block, &others, generation).await);
                }
                Next::Read(nodes) if self.world.mutation == Some(Mutation::BelieveUnread) => {
                    nodes.into_iter().for_each(|node| hearing.was_read(node, Some(Fitness::Fit)));
                }
                Next::Read(nodes) => {
                    for (node, fitness) in self.read(&nodes, last.block, last.generation).await {
                        hearing.was_read(node, fitness);
                    }
                }
                Next::Do(step) => return Ok((step, hearing)),
            }
        }
    }

    /// Whether one of these is, or there is none to be read.
    async fn is_one_fit(&self, unread: &[NodeId], block: BlockId, generation: Generation) -> bool {
        let believed = unread.is_empty() || self.world.mutation == Some(Mutation::BelieveUnread);
        believed || self.read(unread, block, generation).await.iter().any(|(_, said)| *said == Some(Fitness::Fit))
    }

    async fn read(&self, nodes: &[NodeId], block: BlockId, wanted: Generation) -> Vec<(NodeId, Option<Fitness>)> {
        let read = self
            .ask_all(nodes, READ_MAX, move |node, block| Box::pin(async move { Ok(node.verify(block, wanted).await) }));
        read(block).await
    }

    /// Has nodes fence their replicas of the block, and say what they have.
    async fn show(&self, block: BlockId, nodes: &[NodeId], generation: Generation) -> Vec<Shown> {
        let begin = self.ask_all(nodes, ANSWER_MAX, move |node, block| {
            Box::pin(async move { node.begin_recovery(block, generation).await })
        });
        let answers: Vec<(NodeId, Option<Option<Info>>)> = begin(block).await;
        let shown = |(node, answer): (NodeId, Option<Option<Info>>)| match answer {
            None => Shown::Silence,
            Some(info) => info.map_or(Shown::Nothing, |info| Shown::Replica(survivor(node, &info))),
        };
        answers.into_iter().map(shown).collect()
    }

    /// `None` where no answer came, or a refusal.
    fn ask_all<A: 'static>(
        &self,
        nodes: &[NodeId],
        limit: Duration,
        ask: impl Fn(Rc<Datanode>, BlockId) -> Boxed<Result<A, ()>> + Clone + 'static,
    ) -> impl Fn(BlockId) -> Boxed<Vec<(NodeId, Option<A>)>> {
        let (world, from, nodes) = (Rc::clone(&self.world), self.host, nodes.to_vec());
        move |block| {
            let calls = nodes.iter().map(|id| {
                let (world, id, ask) = (Rc::clone(&world), *id, ask.clone());
                let call: Boxed<(NodeId, Option<A>)> = Box::pin(async move {
                    let number = World::node_number(id);
                    let answer: Result<Result<A, ()>, CallError> =
                        world.call_node(from, number, limit, move |node| ask(node, block)).await;
                    (id, answer.ok().and_then(Result::ok))
                });
                call
            });
            Box::pin(all(calls.collect()))
        }
    }
}

fn survivor(node: NodeId, info: &Info) -> Survivor {
    Survivor { node, state: info.state, generation: info.identity.generation, len: info.len as u64 }
}
