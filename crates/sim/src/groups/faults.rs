//! What goes wrong while a group works, and the administrator who adds and removes members meanwhile.

use super::hand_over;
use super::member::{Member, World, plan_chance};
use crate::executor::HostId;
use crate::member::{Founders, peer};
use raft::{RaftError, Role};
use std::rc::Rc;
use std::time::Duration;
use types::Random;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Kill,
    KillAll,
    Power,
    PowerAll,
    /// Between one and all others.
    Cut,
    CutOneWay,
    /// Between two.
    CutPair,
    SyncError,
    FullDisk,
    SlowDisk,
    Rough,
    /// The leader gives the lead away.
    HandOver,
    /// A member comes back with an empty disk, under its old id.
    LostDisk,
    /// A machine sleeps, and wakes up where it was.
    Sleep,
}

const ALL: [Fault; 14] = [
    Fault::Kill,
    Fault::KillAll,
    Fault::Power,
    Fault::PowerAll,
    Fault::Cut,
    Fault::CutOneWay,
    Fault::CutPair,
    Fault::SyncError,
    Fault::FullDisk,
    Fault::SlowDisk,
    Fault::Rough,
    Fault::HandOver,
    Fault::LostDisk,
    Fault::Sleep,
];

/// What a seed decides beforehand.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) founder_count: u64,
    pub(super) clients: usize,
    /// Little: who was away gets a copy of the state. Much: it gets the log.
    pub(super) retain_len: usize,
    pub(super) rough: Duration,
    pub(super) calm: Duration,
    pub(super) faults: Vec<Fault>,
    pub(super) members_change: bool,
}

impl Plan {
    /// `members_change`: some join, and some leave.
    pub(super) fn new(seed: u64, members_change: bool) -> Self {
        let mut chance = plan_chance(seed);
        // Some seeds have a few kinds of faults, some all, some none.
        let faults = match chance.below(8) {
            0 => Vec::new(),
            1 | 2 => ALL.to_vec(),
            _ => (0..1 + chance.below(4)).map(|_| ALL[chance.below(ALL.len())]).collect(),
        };
        Self {
            founder_count: [1, 3, 3, 3, 3, 5][chance.below(6)],
            clients: 3 + chance.below(2),
            retain_len: [2_000, 1 << 20][chance.below(2)],
            rough: Duration::from_secs(20 + chance.below(30) as u64),
            calm: Duration::from_millis(500 + chance.below(4_000) as u64),
            faults,
            members_change,
        }
    }

    pub(super) fn founders(&self) -> Founders {
        Founders { count: self.founder_count, retain_len: self.retain_len }
    }
}

/// Faults one after the other, and sometimes together; all is well again when this returns.
pub(super) async fn make_faults(world: Rc<World>, plan: Plan) {
    let sim = world.sim.clone();
    let end = sim.now() + plan.rough;
    if plan.faults.is_empty() {
        return sim.sleep_until(end).await;
    }
    while sim.now() < end {
        sim.sleep(sim.between(Duration::ZERO, plan.calm * 2)).await;
        let fault = plan.faults[sim.below(plan.faults.len())];
        let time = sim.between(Duration::from_millis(10), Duration::from_secs(8));
        let time = if sim.one_in(3) { time / 20 } else { time };
        world.fault_count.set(world.fault_count.get() + 1);
        let at = Rc::clone(&world);
        let one = async move { strike(&at, fault, time).await };
        // Two at a time, now and then.
        if sim.one_in(4) { sim.spawn(HostId::NOBODY, one) } else { one.await }
    }
    // Longer than the longest of them.
    sim.sleep(Duration::from_secs(9)).await;
}

async fn strike(world: &Rc<World>, fault: Fault, time: Duration) {
    let sim = &world.sim;
    let ids = world.ids();
    let one = ids[sim.below(ids.len())];
    let others: Vec<u64> = ids.iter().copied().filter(|id| *id != one).collect();
    sim.say(|| format!("{fault:?} at member {one} for {time:?}"));
    match fault {
        Fault::Kill | Fault::Power => fall(world, &[one], fault == Fault::Power, time).await,
        Fault::KillAll | Fault::PowerAll => fall(world, &ids, fault == Fault::PowerAll, time).await,
        Fault::Cut | Fault::CutOneWay | Fault::CutPair => {
            let mut ways: Vec<(u64, u64)> = match fault {
                Fault::CutPair => others.first().map(|other| (one, *other)).into_iter().collect(),
                _ => others.iter().map(|other| (one, *other)).collect(),
            };
            let back: Vec<(u64, u64)> = ways.iter().map(|(from, to)| (*to, *from)).collect();
            match (fault, sim.below(2)) {
                (Fault::CutOneWay, 0) => ways = back,
                (Fault::CutOneWay, _) => {}
                _ => ways.extend(back),
            }
            ways.iter().for_each(|(from, to)| world.net.cut(World::host(*from), World::host(*to)));
            sim.sleep(time).await;
            ways.iter().for_each(|(from, to)| world.net.heal(World::host(*from), World::host(*to)));
        }
        Fault::HandOver => hand_over::strike(world).await,
        Fault::LostDisk => lose_disk(world, one, time).await,
        Fault::Sleep => {
            // Mostly of the leader, who has most to believe.
            let leads = world.members().into_iter().find(|member| member.raft.is_leader());
            let one = leads.filter(|_| !sim.one_in(4)).map_or(one, |leader| leader.id);
            sim.say(|| format!("the machine of member {one} sleeps"));
            sim.suspend(World::host(one));
            sim.sleep(time).await;
            sim.wake_up(World::host(one));
        }
        Fault::SyncError => world.platter(one).fail_next_sync(),
        Fault::FullDisk => {
            world.platter(one).set_full(true);
            sim.sleep(time).await;
            world.platter(one).set_full(false);
        }
        Fault::SlowDisk => {
            world.platter(one).set_slowness([10, 100, 500][sim.below(3)]);
            sim.sleep(time).await;
            world.platter(one).set_slowness(1);
        }
        Fault::Rough => {
            world.net.set_rough(50, 100);
            sim.sleep(time).await;
            world.net.set_rough(0, 0);
        }
    }
}

async fn fall(world: &Rc<World>, ids: &[u64], power: bool, time: Duration) {
    for id in ids {
        world.keep_down(*id);
        world.kill(*id, power);
    }
    world.sim.sleep(time).await;
    for id in ids {
        world.start(*id);
    }
}

/// One at a time, and where two others have a vote and no change of members is under way: more loses what was
/// acknowledged, or the majority, whatever the program does.
async fn lose_disk(world: &Rc<World>, id: u64, time: Duration) {
    let Some(leader) = world.leader().await else { return };
    let voters = leader.raft.group().members.into_iter().filter(|member| member.role != Role::Learner);
    let voters: Vec<u64> = voters.map(|member| member.id).collect();
    if world.founded_alone(id) {
        return;
    }
    if world.lost.get().is_some() || world.is_changing.get() || voters.len() < 3 || !voters.contains(&id) {
        return;
    }
    world.sim.say(|| format!("member {id} loses its disk"));
    world.kill(id, true);
    world.keep_down(id);
    world.lose_disk(id);
    world.sim.sleep(time).await;
    world.start(id);
}

const ADMIN_WAIT: Duration = Duration::from_secs(15);
const MEMBERS_MAX: usize = 6;

/// Whose disk was lost is removed, and another one takes its place. And while the time is rough, if `members_change`,
/// members join and leave.
pub(super) async fn administer(world: Rc<World>, members_change: bool) {
    let sim = world.sim.clone();
    let mut wanted = 0;
    while !world.over.get() || world.lost.get().is_some() || wanted > 0 {
        sim.sleep(sim.between(Duration::from_secs(1), Duration::from_secs(12))).await;
        let Some(leader) = world.leader().await else { continue };
        let members = leader.raft.group().members;
        if let Some(id) = world.lost.get() {
            if leave(&world, &leader, id).await {
                world.lost.set(None);
                wanted += 1;
            }
        } else if wanted > 0 {
            wanted -= usize::from(join(&world, &leader, &members).await);
        } else if members_change && !world.over.get() {
            let may_go = members.len() > 1;
            if sim.one_in(2) && members.len() < MEMBERS_MAX || !may_go {
                join(&world, &leader, &members).await;
            } else {
                leave(&world, &leader, members[sim.below(members.len())].id).await;
            }
        }
    }
}

/// One that was begun with is ended first.
async fn join(world: &Rc<World>, leader: &Member, members: &[raft::Member]) -> bool {
    let sim = &world.sim;
    let half = world.ids().into_iter().find(|id| {
        let member = members.iter().find(|member| member.id == *id);
        member.is_none_or(|member| member.role == Role::Learner)
    });
    let id = half.unwrap_or_else(|| world.next_id());
    world.start(id);
    sim.say(|| format!("member {id} is to join"));
    world.is_changing.set(true);
    let joined = sim.timeout(ADMIN_WAIT, leader.raft.add_member(peer(id))).await;
    sim.say(|| format!("member {id} joins: {joined:?}"));
    let is_done = matches!(joined, Some(Ok(())));
    if let Some(Err(RaftError::NotNew { .. })) = joined {
        // The leader that added it died, and the entry that said so with it. It has a part of the log: another takes
        // its place.
        world.dismiss(id);
    }
    world.is_changing.set(!is_done);
    is_done
}

async fn leave(world: &Rc<World>, leader: &Member, id: u64) -> bool {
    let sim = &world.sim;
    sim.say(|| format!("member {id} is to leave"));
    world.is_changing.set(true);
    let left = sim.timeout(ADMIN_WAIT, leader.raft.remove_member(id)).await;
    sim.say(|| format!("member {id} leaves: {left:?}"));
    let is_done = matches!(left, Some(Ok(())));
    world.is_changing.set(!is_done);
    if is_done {
        world.dismiss(id);
    }
    is_done
}
