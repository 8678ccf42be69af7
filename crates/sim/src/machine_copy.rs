//! A datanode's machine is copied, and the copy runs beside it: a process with the node's id at another address.
//!
//! It registers, sends heartbeats and confirms orders to delete, which it carries out on replicas of its own. Nobody
//! reaches it.

use crate::executor::{Boxed, HostId};
use crate::metad::{Metad, Refused};
use crate::world::{Process, World};
use datanode::Attempts;
use datanode::session::{HEARTBEAT_EACH, IN_USE_MAX};
use std::rc::Rc;
use std::time::Duration;
use types::random::Seeded;
use types::{Random, StorageUsage};
use wire::node::HeartbeatRequest;

const CALL_MAX: Duration = Duration::from_secs(60);
const USAGE: StorageUsage = StorageUsage { capacity_len: 1 << 41, used_len: 1 << 30, free_len: 1 << 40 };

/// One copy: from when on, of which node, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MachineCopy {
    begin: Duration,
    node: usize,
    life: Duration,
}

impl MachineCopy {
    /// Of a quarter of the seeds. By a chance of its own, so that the others' histories stay as they were.
    pub(crate) fn of(seed: u64, node_count: usize) -> Vec<Self> {
        let mut random = Seeded(seed ^ 0xc0b1_ed00);
        if random.below(4) != 0 {
            return Vec::new();
        }
        let count = 1 + random.below(2);
        let copy = |_| Self {
            begin: Duration::from_millis(5_000 + random.below(40_000) as u64),
            node: random.below(node_count),
            life: Duration::from_millis(5_000 + random.below(60_000) as u64),
        };
        (0..count).map(copy).collect()
    }

    pub(crate) async fn run(self, world: Rc<World>) {
        world.sim.sleep_until(self.begin).await;
        let host = World::copy_host(self.node);
        if world.net.is_up(host) {
            return;
        }
        world.sim.say(|| format!("FAULT the machine of node {} is copied, and the copy runs", self.node));
        world.fault_count.set(world.fault_count.get() + 1);
        world.net.up(host);
        let process = world.process(self.node, true);
        for member in 0..world.plan.metad_count {
            let world = Rc::clone(&world);
            world.sim.clone().spawn(host, async move { session(world, process, member).await });
        }
        world.sim.sleep(self.life).await;
        world.net.down(host, false);
        world.sim.kill(host);
        world.ended(process, false);
        world.sim.say(|| format!("the copy of node {} is gone", self.node));
    }
}

/// Until it is told that it is not the node.
async fn session(world: Rc<World>, process: Process, member: usize) {
    let (mut attempts, mut deleted) = (Attempts::default(), Vec::new());
    loop {
        world.sim.sleep(HEARTBEAT_EACH).await;
        let registered = ask(&world, process, member, move |metad| Box::pin(metad.register(process, USAGE))).await;
        world.sim.say(|| format!("the copy of node {} registers at metad {member}: {registered:?}", process.number));
        match registered {
            Some(Ok(_)) => attempts.succeeded(),
            Some(Err(Refused::InUse)) => {
                if !attempts.may_try_again(world.sim.now(), IN_USE_MAX) {
                    return;
                }
                continue;
            }
            _ => continue,
        }
        loop {
            let deleted_now = std::mem::take(&mut deleted);
            let usage = Some(USAGE.into());
            let told = HeartbeatRequest { usage, deleted: deleted_now, ..HeartbeatRequest::default() };
            let answer = ask(&world, process, member, move |metad| Box::pin(metad.heartbeat(process, told))).await;
            match answer {
                Some(Ok(orders)) if orders.known => deleted = orders.delete.iter().map(|delete| delete.block).collect(),
                Some(Err(Refused::Superseded)) => return,
                _ => break,
            }
            world.sim.sleep(HEARTBEAT_EACH).await;
        }
    }
}

async fn ask<T: 'static>(
    world: &Rc<World>,
    process: Process,
    member: usize,
    call: impl FnOnce(Rc<Metad>) -> Boxed<Result<T, Refused>> + 'static,
) -> Option<Result<T, Refused>> {
    let host: HostId = World::copy_host(process.number);
    world.call_metad(host, member, CALL_MAX, call).await.ok()
}
