//! The lead is given away: while everything goes wrong, and once when all is well.

use super::member::{Member, World};
use crate::executor::HostId;
use namespace::{Caller, Format, Request};
use raft::Role;
use std::rc::Rc;
use std::time::Duration;

/// Who gave the lead away is looked at for so long, longer than any lease.
const LOOK: Duration = Duration::from_secs(1);
const LOOK_EACH: Duration = Duration::from_millis(3);
/// For the end of a hand-over when all is well.
const TAKE_OVER_MAX: Duration = Duration::from_secs(3);

/// The leader gives the lead to another, and often nothing reaches it from then on. It must not take itself for the
/// leader while the next one changes something.
pub(super) async fn strike(world: &Rc<World>) {
    let sim = &world.sim;
    let Some(old) = world.leader().await else { return };
    let Some((to, others)) = standbys(&old).and_then(|ids| Some((*ids.get(sim.below(ids.len()))?, ids))) else {
        return;
    };
    let is_deaf = sim.one_in(2);
    sim.say(|| format!("member {} gives the lead to {to}, deaf: {is_deaf}", old.id));
    let ways = || others.iter().filter(|_| is_deaf).map(|other| (World::host(*other), World::host(old.id)));
    ways().for_each(|(from, to)| world.net.cut(from, to));
    if old.raft.hand_over_to(to).await.is_ok() {
        let end = sim.now() + LOOK;
        let mut is_changed = false;
        while sim.now() < end {
            let next = world.members().into_iter().find(|member| member.id != old.id && member.raft.is_leader());
            if let Some(next) = next.filter(|_| !is_changed) {
                is_changed = true;
                let at = Rc::clone(world);
                sim.spawn(HostId::NOBODY, async move { change(&at, &next).await });
            }
            let _it_may_lead_no_more = sim.timeout(LOOK_EACH, world.confirm(&old)).await;
            sim.sleep(LOOK_EACH).await;
        }
    }
    ways().for_each(|(from, to)| world.net.heal(from, to));
}

/// Others that have a vote; `None` if there are none.
fn standbys(leader: &Member) -> Option<Vec<u64>> {
    let members = leader.raft.group().members.into_iter();
    let ids: Vec<u64> = members.filter(|member| member.role == Role::Standby).map(|member| member.id).collect();
    Some(ids).filter(|ids| !ids.is_empty())
}

/// A change without consequences: the namespace is there already, or somebody is about to make it.
async fn change(world: &World, member: &Member) {
    let op = Format { owner: "root".into(), group: "root".into() }.into();
    let request = Request { now: world.wall(member.id), caller: Caller::system(), retry: None, op };
    let _it_may_not_lead_yet = world.propose(member, request).await;
}

/// When all is well, and nobody asks for anything, the one that is meant leads, by one election.
pub(super) fn check(world: &Rc<World>) {
    let at = Rc::clone(world);
    world.sim.spawn(HostId::NOBODY, async move {
        let Some(leader) = at.leader().await else { return at.fail("nobody leads".to_owned()) };
        let Some(to) = standbys(&leader).map(|ids| ids[at.sim.below(ids.len())]) else { return };
        let term = leader.raft.group().term;
        at.sim.say(|| format!("all is well; member {} gives the lead to {to}", leader.id));
        if leader.raft.hand_over_to(to).await.is_err() {
            return;
        }
        at.sim.sleep(TAKE_OVER_MAX / 2).await;
        let next = at.leader().await.map(|next| (next.id, next.raft.group().term));
        if next != Some((to, term + 1)) {
            at.fail(format!("member {to} was to lead in term {}, instead: {next:?}", term + 1));
        }
    });
    world.sim.run_until(world.sim.now() + TAKE_OVER_MAX);
}
