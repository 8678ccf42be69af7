//! What must hold, while a run goes on and when it is over.

use crate::history;
use crate::volume::{Info, ReplicaState};
use crate::work::Work;
use crate::world::{World, content};
use namespace::{BlockView, Caller, read};
use std::collections::BTreeMap;
use std::rc::Rc;
use types::rows::{MemoryRows, Rows};
use types::{BlockId, FileId, FsPath, Generation};

/// Two whole replicas of one generation and length hold the same bytes, wherever they are.
pub(crate) fn contradictions(world: &World) {
    let mut seen: BTreeMap<(BlockId, Generation, usize), (usize, Vec<u8>)> = BTreeMap::new();
    for number in 0..world.plan.node_count {
        for (block, stored) in &world.node_platter(number).borrow().shelf {
            let image = stored.image();
            if world.is_spoiled(number, *block) || !image.verifies(image.data.len()) {
                continue;
            }
            let key = (*block, image.identity.generation, image.data.len());
            match seen.get(&key) {
                Some((other, bytes)) if *bytes != image.data => {
                    world.fail(|| format!("nodes {other} and {number} contradict each other about {key:?}"));
                }
                Some(_) => {}
                None => _ = seen.insert(key, (number, image.data.clone())),
            }
        }
    }
}

/// The rows of every member, which are the same where they are at the same place of the log.
pub(crate) fn rows(world: &World) {
    let mut at: BTreeMap<u64, (usize, MemoryRows)> = BTreeMap::new();
    for number in 0..world.plan.metad_count {
        let Some(metad) = world.metad(number) else { continue };
        let (applied, rows) = (metad.group.applied(), metad.group.rows().clone());
        match namespace::check::check(&rows) {
            Ok(violations) => {
                for violation in violations {
                    world.fail(|| format!("metad {number}: {violation}"));
                }
            }
            Err(error) => world.fail(|| format!("metad {number}: {error}")),
        }
        if let Some((other, known)) = at.get(&applied) {
            if *known != rows {
                world.fail(|| format!("metad {other} and {number} hold different rows at {applied}"));
            }
        } else {
            at.insert(applied, (number, rows));
        }
    }
}

pub(crate) fn history(world: &World, work: &Work) {
    if let Err(why) = history::check(&work.history.borrow()) {
        for event in work.history.borrow().iter() {
            world.sim.say(|| format!("client {}: {event:?}", event.client));
        }
        world.fail(|| format!("no order explains what clients saw: {why}"));
    }
}

/// What is still to come to rest; empty when all has.
pub(crate) fn unrest(world: &World) -> Vec<String> {
    let Some(leader) = world.leader() else { return vec!["nobody leads".into()] };
    let rows = leader.group.rows();
    let mut unrest = Vec::new();
    let (open, _) = read::open_files(&*rows, types::InodeId(0), 10_000).expect("memory can be read");
    unrest.extend(open.iter().map(|file| format!("{} is open by {}", file.path, file.holder.holder)));
    let doomed = read::doomed_blocks(&*rows, None, 10_000).expect("memory can be read");
    unrest.extend(doomed.iter().map(|doomed| format!("{doomed:?} is not forgotten")));
    if read::has_deleted_trees(&*rows).expect("memory can be read") {
        unrest.push("a deleted tree is not freed".into());
    }
    for number in 0..world.plan.node_count {
        let Some(node) = world.node(number) else { continue };
        for info in node.volume.replicas() {
            if let Some(why) = useless(&*rows, &leader, number, &info) {
                unrest.push(format!("node {number}: {info:?}: {why}"));
            }
        }
    }
    unrest
}

fn useless(rows: &dyn Rows, leader: &Rc<crate::metad::Metad>, number: usize, info: &Info) -> Option<&'static str> {
    let found = read::file_of_block(rows, info.identity.block).expect("memory can be read");
    let Some((_, view)) = found else { return Some("no file owns it") };
    let (id, now) = (World::node_id(number), leader.now());
    let (member, alone) = leader
        .group
        .see_cluster(|cluster| {
            let others = cluster.members(view.home).into_iter().filter(|member| member.node.id != id);
            (cluster.is_member(view.home, id), !others.into_iter().any(|member| member.is_live(now)))
        })
        .unwrap_or((true, true));
    match () {
        // It may be the best that is left.
        () if alone && (!member || info.identity.generation < view.generation) => None,
        () if !member => Some("its home is elsewhere"),
        () if info.identity.generation < view.generation => Some("it is stale"),
        // A whole block's replica that lost power without a sync, or whose disk failed in a recovery, waits to be replaced from
        // the others: a matter of repair.
        () if info.state != ReplicaState::Finalized && !view.complete => Some("it is not finalized"),
        () => None,
    }
}

/// After all has come to rest: every promise that any node could keep is kept.
pub(crate) fn promises(world: &Rc<World>) {
    let Some(leader) = world.leader() else { return };
    let oracle = world.oracle.borrow();
    for (id, truth) in &oracle.files {
        if truth.doomed {
            continue;
        }
        let path = read::path_of_inode(&*leader.group.rows(), *id).expect("memory can be read");
        let Some(path) = path.and_then(|path| FsPath::parse(&path).ok()) else {
            world.fail(|| format!("{id} is gone, and nobody deleted it"));
            continue;
        };
        let file = read::located(&*leader.group.rows(), &Caller::system(), &path, 0, u64::MAX);
        let Ok(file) = file.expect("memory can be read") else { continue };
        let held: Vec<_> = truth.promises.iter().filter(|promise| promise.holds(world)).collect();
        if let Some(len) = truth.closed
            && truth.promises.iter().all(|promise| promise.holds(world))
            && file.file_len as usize != len
        {
            world.fail(|| format!("{path} ({id}) has {} bytes, and was closed with {len}", file.file_len));
        }
        for promise in held {
            if file.file_len < promise.end as u64 {
                world.fail(|| format!("{path} ({id}) has {} bytes, but {promise:?}", file.file_len));
                continue;
            }
            let blocks = file.blocks.iter().filter(|view| {
                (view.offset as usize) < promise.end && (view.offset + view.len) as usize > promise.start
            });
            for view in blocks {
                if let Err(why) = readable(world, &leader, truth.tag, *id, view) {
                    world.fail(|| format!("{path} ({id}): {view:?} cannot be read ({why}), but {promise:?}"));
                }
            }
        }
    }
}

fn readable(
    world: &World,
    leader: &Rc<crate::metad::Metad>,
    tag: u64,
    file: FileId,
    view: &BlockView,
) -> Result<(), String> {
    let members = leader.group.see_cluster(|cluster| cluster.member_ids(view.home).to_vec()).unwrap_or_default();
    let mut found = Vec::new();
    for member in &members {
        let number = World::node_number(*member);
        let platter = world.node_platter(number).borrow();
        let Some(image) = platter.shelf.get(&view.block).map(|stored| stored.image()) else {
            found.push(format!("node {number}: nothing"));
            continue;
        };
        let len = view.len as usize;
        let fits = image.identity.generation >= view.generation && image.data.len() >= len && image.verifies(len);
        if !fits {
            found.push(format!("node {number}: {:?}, {} bytes", image.identity.generation, image.data.len()));
            continue;
        }
        let start = view.offset as usize;
        if let Some(at) = (0..len).find(|at| image.data[*at] != content(tag, start + at)) {
            world.fail(|| format!("node {number} has a wrong byte at {at} of {:?} of {file}", view.block));
        }
        return Ok(());
    }
    Err(found.join("; "))
}
