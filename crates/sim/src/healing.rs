//! Blocks come back to as many copies as they should have: what `metad`'s repair does, around `blocks::{Repair, Surplus}` and
//! `Cluster::mend`.

use crate::executor::Boxed;
use crate::metad::{Answer, Metad, REPLICATION};
use crate::world::World;
use blocks::{Command, Lack, MendRules, Told};
use namespace::read::{self, Page, Place};
use namespace::{BlockView, IndexVisitors, Reply};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use types::{BlockId, ContainerId, Epoch, NodeId};

// As in `metad`, but for the audit, for which a run is too short there.
const ROUND_EACH: Duration = Duration::from_secs(1);
const ROUND_PAUSE: Duration = Duration::from_millis(100);
const ANSWER_MAX: Duration = Duration::from_secs(10);
const VERIFY_MAX: Duration = Duration::from_secs(120);
const LOST_AFTER: Duration = Duration::from_secs(15);
const AUDIT_EACH: Duration = Duration::from_secs(10);
const PAGE_COUNT: usize = 1000;
const CHANGE_COUNT_MAX: usize = 50;
const CHECK_COUNT_MAX: usize = 200;
/// A registered node's catalogue comes first.
pub(crate) const CATALOGUE_WAIT: Duration = Duration::from_secs(3);

/// What a node says of a replica it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fitness {
    Fit,
    Unfit,
    Absent,
    Busy,
}

impl Metad {
    pub(crate) async fn heal_always(self: Rc<Self>, reign: u64) {
        self.take_up();
        let mut audited = (self.now(), None);
        while self.reigns(reign) {
            self.audit(&mut audited);
            let _again = self.heal().await;
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

    fn audit(&self, (at, after): &mut (Duration, Option<ContainerId>)) {
        let now = self.now();
        if now >= *at + AUDIT_EACH {
            *at = now;
            *after = self.with_cluster(|cluster, _| cluster.container_after(*after)).ok().flatten();
            after.iter().for_each(|home| self.repair.borrow_mut().suspect(*home, now));
        }
    }

    async fn heal(self: &Rc<Self>) -> Answer<()> {
        if !read::visitors_listed(&*self.group.rows()).expect("memory can be read") {
            while let Reply::Bool(false) = self.change(None, IndexVisitors { count: 1000 }).await? {}
        }
        self.mend().await?;
        self.compare().await?;
        self.settle_surplus().await
    }

    fn rules(&self) -> MendRules {
        MendRules {
            now: self.now(),
            leading_since: self.leader_since.get(),
            lost_after: LOST_AFTER,
            usual_replication: REPLICATION,
        }
    }

    fn askable(&self, nodes: impl IntoIterator<Item = NodeId>) -> Answer<Vec<NodeId>> {
        let rules = self.rules();
        self.with_cluster(|cluster, _| {
            let members = nodes.into_iter().filter_map(|id| cluster.node(id));
            let here = members.filter(|member| member.seen().is_some() && !rules.is_lost(Some(member)));
            here.map(|member| member.node.id).collect()
        })
    }

    // ── members ──

    async fn mend(&self) -> Answer<()> {
        for _ in 0..CHANGE_COUNT_MAX {
            let rules = self.rules();
            let Some(command) = self.with_cluster(|cluster, random| cluster.mend(&rules, random))? else {
                return Ok(());
            };
            self.sim.say(|| format!("metad {}: {command:?}", self.number));
            if self.change_blocks(command.clone()).await?.is_err() {
                return Ok(());
            }
            let Command::SetMembers { pipeline, .. } = command else { continue };
            let now = self.now();
            self.with_cluster(|cluster, _| {
                let mut repair = self.repair.borrow_mut();
                cluster.containers_of(pipeline).for_each(|home| repair.suspect(home, now));
                repair.retain(now, |lack| cluster.is_member(lack.home, lack.node));
            })?;
        }
        self.repair_wake.notify();
        Ok(())
    }

    // ── comparing ──

    async fn compare(self: &Rc<Self>) -> Answer<()> {
        self.compare_doubted().await?;
        let mut whole = Vec::new();
        for _ in 0..CHECK_COUNT_MAX {
            let next = self.repair.borrow_mut().next_check(self.now());
            let Some(home) = next else { break };
            whole.extend(self.compare_container(home).await?.map(|epoch| (home, epoch)));
        }
        if !whole.is_empty() {
            let _overtaken = self.change_blocks(Command::Whole { containers: whole }).await?;
            self.repair_wake.notify();
        }
        Ok(())
    }

    async fn compare_doubted(self: &Rc<Self>) -> Answer<()> {
        let blocks = self.repair.borrow_mut().take_doubts(PAGE_COUNT);
        let mut by_home: BTreeMap<ContainerId, Vec<BlockView>> = BTreeMap::new();
        let mut open = Vec::new();
        for block in blocks {
            match self.view_of(block) {
                Some(view) if view.complete => by_home.entry(view.home).or_default().push(view),
                Some(_) => open.push(block),
                None => self.repair.borrow_mut().forget_block(block),
            }
        }
        for (home, views) in by_home {
            let members = self.members_to_ask(home)?;
            if self.compare_list(&views, &members).await?.unanswered > 0 {
                open.extend(views.iter().map(|view| view.block));
            }
        }
        open.into_iter().for_each(|block| self.repair.borrow_mut().doubt(block));
        Ok(())
    }

    pub(crate) fn view_of(&self, block: BlockId) -> Option<BlockView> {
        let found = read::file_of_block(&*self.group.rows(), block).expect("memory can be read");
        found.map(|(_, view)| view)
    }

    fn members_to_ask(&self, home: ContainerId) -> Answer<Vec<NodeId>> {
        let ids = self.with_cluster(|cluster, _| cluster.member_ids(home).to_vec())?;
        self.askable(ids)
    }

    /// The epoch of which the container is whole, if that is news.
    async fn compare_container(self: &Rc<Self>, home: ContainerId) -> Answer<Option<Epoch>> {
        let state = self.with_cluster(|cluster, _| {
            let pipeline = cluster.pipeline(cluster.container(home)?.pipeline)?;
            Some((pipeline.row.epoch, !pipeline.row.joining.is_empty(), cluster.container(home)?.epoch))
        })?;
        let Some((epoch, joining, known)) = state else { return Ok(None) };
        let members = self.members_to_ask(home)?;
        self.repair.borrow_mut().begin(home);
        let mut sum = Compared::default();
        let mut place = Some(Place::start(home));
        while let Some(from) = place {
            let page = read::container_page(&*self.group.rows(), home, from, PAGE_COUNT);
            let Page { blocks, open, next, .. } = page.expect("memory can be read");
            place = next;
            if joining {
                open.iter().for_each(|block| self.repair.borrow_mut().doubt(*block));
            }
            if !blocks.is_empty() {
                let outcome = self.compare_list(&blocks, &members).await?;
                sum.lacks += outcome.lacks;
                sum.missing += outcome.missing;
                sum.unanswered += outcome.unanswered;
            }
        }
        let rules = self.rules();
        let all_asked = self.with_cluster(|cluster, _| {
            let all = cluster.members(home);
            all.iter().all(|member| rules.is_lost(Some(member)) || members.contains(&member.node.id))
        })?;
        let mut repair = self.repair.borrow_mut();
        if sum.missing > 0 || sum.unanswered > 0 || !all_asked {
            repair.retry(home, self.now());
            return Ok(None);
        }
        if sum.lacks > 0 || repair.is_open(home) {
            return Ok(None);
        }
        repair.on_whole(home);
        Ok((known < epoch && !members.is_empty()).then_some(epoch))
    }

    async fn compare_list(self: &Rc<Self>, blocks: &[BlockView], members: &[NodeId]) -> Answer<Compared> {
        let fitness = self.fitness(blocks, members).await;
        let mut outcome = Compared { unanswered: members.len() - fitness.len(), ..Compared::default() };
        let now = self.now();
        for (place, view) in blocks.iter().enumerate() {
            let of = |node: &NodeId| fitness.get(node).map(|list| list[place]);
            let mut sources: Vec<NodeId> = members.iter().copied().filter(|id| of(id) == Some(Fitness::Fit)).collect();
            if sources.len() == members.len() && !members.is_empty() {
                continue;
            }
            let strays = self.surplus.borrow().sources(view.block, view.generation, view.len);
            sources.extend(self.with_cluster(|cluster, _| {
                let live = |id: &NodeId| cluster.node(*id).is_some_and(|member| member.is_live(now));
                strays.into_iter().filter(live).collect::<Vec<_>>()
            })?);
            let mut repair = self.repair.borrow_mut();
            sources.retain(|id| !repair.is_bad(view.block, *id));
            if members.iter().any(|id| of(id) == Some(Fitness::Busy)) {
                outcome.unanswered += 1;
                repair.doubt(view.block);
            } else if sources.is_empty() {
                outcome.missing += usize::from(outcome.unanswered == 0);
            }
            let lack = |node, sources: &[NodeId], unfit| {
                let BlockView { file, block, generation, len, home, .. } = *view;
                Lack { block, generation, len, file, home, node, sources: sources.to_vec(), unfit }
            };
            for node in members {
                let Some(fit) = of(node).filter(|fit| !matches!(fit, Fitness::Fit | Fitness::Busy)) else { continue };
                outcome.lacks += 1;
                repair.on_lack(lack(*node, &sources, fit == Fitness::Unfit));
            }
            if members.is_empty() && sources.is_empty() {
                repair.on_lack(lack(NodeId([0; 16]), &[], false));
            }
        }
        Ok(outcome)
    }

    /// For each node that answered, whether it can serve each of the blocks.
    async fn fitness(self: &Rc<Self>, blocks: &[BlockView], nodes: &[NodeId]) -> BTreeMap<NodeId, Vec<Fitness>> {
        let asked: Rc<Vec<BlockView>> = Rc::new(blocks.to_vec());
        let calls = nodes.iter().map(|id| {
            let (metad, id, asked) = (Rc::clone(self), *id, Rc::clone(&asked));
            let call: Boxed<(NodeId, Option<Vec<Fitness>>)> = Box::pin(async move {
                let number = World::node_number(id);
                let answer = metad.world.call_node(metad.host, number, ANSWER_MAX, move |node| {
                    Box::pin(async move { asked.iter().map(|view| node.fitness(view)).collect() })
                });
                (id, answer.await.ok())
            });
            call
        });
        let answers = crate::executor::all(calls.collect()).await;
        let (repair, surplus) = (self.repair.borrow(), self.surplus.borrow());
        let answered = answers.into_iter().filter_map(|(id, list)| {
            let list = blocks.iter().zip(list?).map(|(view, fitness)| match fitness {
                Fitness::Fit if repair.is_bad(view.block, id) => Fitness::Unfit,
                Fitness::Fit if surplus.is_leaving(view.block, id, view.generation) => Fitness::Absent,
                fitness => fitness,
            });
            Some((id, list.collect()))
        });
        answered.collect()
    }

    // ── surplus, and replicas called bad ──

    async fn settle_surplus(self: &Rc<Self>) -> Answer<()> {
        let reported = self.reported.borrow_mut().pop_first();
        if let Some((block, node)) = reported {
            self.verify(block, node).await;
        }
        self.surplus.borrow_mut().expire(self.now());
        for _ in 0..CHANGE_COUNT_MAX {
            let next = self.surplus.borrow_mut().next(self.now());
            let Some(home) = next else { break };
            let settled_all = self.ask_for_surplus(home).await?;
            self.surplus.borrow_mut().asked(home, self.now(), settled_all);
        }
        Ok(())
    }

    async fn ask_for_surplus(self: &Rc<Self>, home: ContainerId) -> Answer<bool> {
        let kept = self.surplus.borrow().of(home, PAGE_COUNT);
        let mut asked: Vec<BlockView> = Vec::new();
        for (_, told) in &kept {
            let view = self.view_of(told.block).filter(|view| view.complete && view.home == home);
            asked.extend(view.filter(|view| asked.iter().all(|known| known.block != view.block)));
        }
        let members = || {
            self.with_cluster(|cluster, _| {
                let row = cluster.pipeline(cluster.container(home)?.pipeline).map(|pipeline| &pipeline.row)?;
                Some((row.epoch, row.members.clone(), row.wanted_or(REPLICATION)))
            })
        };
        let before = members()?;
        let (ids, wanted) = before.clone().map_or((Vec::new(), REPLICATION), |(_, ids, wanted)| (ids, wanted));
        let nodes = self.askable(ids.iter().copied())?;
        let fit = self.fitness(&asked, &nodes).await;
        if members()? != before {
            return Ok(false);
        }
        let mut settled_all = true;
        for (node, told) in kept {
            let Some(at) = asked.iter().position(|view| view.block == told.block) else {
                self.surplus.borrow_mut().forget(home, node, told.block);
                if let Some(view) = self.view_of(told.block).filter(|view| view.complete) {
                    self.moved(node, told, &view)?;
                }
                continue;
            };
            let is_old = told.generation < asked[at].generation;
            if ids.contains(&node) && !is_old {
                self.surplus.borrow_mut().forget(home, node, told.block);
                continue;
            }
            let has = |id: &NodeId| fit.get(id).is_some_and(|list| list[at] == Fitness::Fit);
            let copies = ids.iter().filter(|id| **id != node && has(id)).count();
            let enough = if is_old { 1 } else { usize::from(wanted).max(1) };
            if copies >= enough {
                self.surplus.borrow_mut().let_go(home, node, told, self.now());
            } else {
                settled_all = false;
                self.repair.borrow_mut().doubt(told.block);
            }
        }
        Ok(settled_all)
    }

    fn moved(&self, node: NodeId, told: Told, view: &BlockView) -> Answer<()> {
        let belongs = self.with_cluster(|cluster, _| cluster.is_member(view.home, node))?;
        if !belongs || told.generation < view.generation {
            self.surplus.borrow_mut().keep(node, told, view.home, self.now());
        }
        Ok(())
    }

    async fn verify(&self, block: BlockId, id: NodeId) {
        let Some(view) = self.view_of(block) else { return };
        let number = World::node_number(id);
        let answer = self.world.call_node(self.host, number, VERIFY_MAX, move |node| {
            Box::pin(async move { node.verify(block, view.generation).await })
        });
        match answer.await {
            Ok(Fitness::Absent) => self.doubt(block),
            Ok(Fitness::Unfit) => {
                self.repair.borrow_mut().on_bad(block, id);
                self.repair_wake.notify();
            }
            Ok(Fitness::Fit | Fitness::Busy) | Err(_) => {}
        }
    }

    pub(crate) fn doubt(&self, block: BlockId) {
        self.repair.borrow_mut().doubt(block);
        self.repair_wake.notify();
    }

    pub(crate) fn doubt_if_short(&self, block: BlockId, home: ContainerId) -> Answer<()> {
        let now = self.now();
        let short = self.with_cluster(|cluster, _| {
            let members = cluster.members(home);
            let silent = members.iter().any(|member| !member.is_live(now));
            silent || members.iter().any(|member| !cluster.is_whole(home, member.node.id))
        })?;
        if short {
            self.doubt(block);
        }
        Ok(())
    }

    /// True if the block is being copied to a container that `node` is a member of.
    pub(crate) fn comes_here(&self, node: NodeId, block: BlockId) -> Answer<bool> {
        self.with_cluster(|cluster, _| {
            let repair = self.repair.borrow();
            repair.wants(node, block) || repair.moving_to(block).is_some_and(|home| cluster.is_member(home, node))
        })
    }

    /// Surplus replicas that others have said to have. Each is judged again: its block may have moved here since.
    pub(crate) fn surplus_orders(&self, node: NodeId) -> Answer<Vec<Told>> {
        let going = self.surplus.borrow_mut().orders(node, self.now());
        let mut orders = Vec::new();
        for told in going {
            let wanted = self.wanted(told.block);
            let fate = self.with_cluster(|cluster, _| cluster.judge(node, &told, wanted.as_ref(), true))?.fate;
            if fate == blocks::Fate::Surplus && !self.comes_here(node, told.block)? {
                orders.push(told);
            } else {
                self.surplus.borrow_mut().stays(node, told.block);
            }
        }
        Ok(orders)
    }
}

/// What came of a question.
#[derive(Clone, Copy, Debug, Default)]
struct Compared {
    lacks: usize,
    missing: usize,
    /// Members that did not answer.
    unanswered: usize,
}
