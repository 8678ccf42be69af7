//! What must hold, while a run goes on and when it is over.

use crate::history;
use crate::metad::Metad;
use crate::volume::Info;
use crate::work::Work;
use crate::world::{World, content};
use blocks::ContainerState;
use namespace::read::{Page, Place};
use namespace::{BlockView, Caller, read};
use std::collections::BTreeMap;
use std::rc::Rc;
use types::rows::MemoryRows;
use types::{BlockId, FileId, FsPath, Generation, NodeId, ReplicaState};

/// Two whole replicas of one generation and length hold the same bytes, wherever they are.
pub(crate) fn contradictions(world: &World) {
    world.note_recoveries();
    let mut seen: BTreeMap<(BlockId, Generation, usize), (usize, Vec<u8>)> = BTreeMap::new();
    for number in 0..world.plan.node_count {
        for block in world.node_platter(number).borrow().falsely_durable() {
            world.fail(|| format!("node {number} calls {block:?} durable after a sync of it has failed"));
        }
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
    let mut at: BTreeMap<(u64, u64), (usize, MemoryRows)> = BTreeMap::new();
    for number in 0..world.plan.metad_count {
        let Some(metad) = world.metad(number) else { continue };
        let Some(applied) = metad.applied() else { continue };
        let rows = metad.all_rows();
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
                world.fail(|| format!("metad {other} and {number} hold different rows at {applied:?}"));
            }
        } else {
            at.insert(applied, (number, rows));
        }
    }
}

/// What the leader counts beside its picture is what a recount gives.
pub(crate) fn picture(world: &World) {
    if let Some(leader) = world.leader() {
        leader.check();
    }
}

/// While disks are nearly full: containers that have fewer copies than they should, though somebody can copy them and
/// somebody has room.
pub(crate) fn room(world: &World) -> Vec<String> {
    let Some(leader) = world.leader() else { return vec!["nobody leads".into()] };
    let homes = leader.see_cluster(|cluster| {
        let homes = cluster.containers().map(|(home, container)| {
            let (wanted, members) = (usize::from(cluster.wanted(home)), cluster.member_ids(home).to_vec());
            let is_source = |id: &NodeId| cluster.is_whole(home, *id) && is_up(world, *id);
            let sources: Vec<NodeId> = members.iter().copied().filter(is_source).collect();
            (home, wanted, container.len_about() as usize, members, sources)
        });
        homes.collect::<Vec<_>>()
    });
    let (mut unrest, mut short_count) = (Vec::new(), 0);
    for (home, wanted, len, members, sources) in homes.unwrap_or_default() {
        let page = read::container_page(&leader.all_rows(), home, Place::start(home), usize::MAX);
        let Page { blocks, open, .. } = page.expect("memory can be read");
        let all = || (0..world.plan.node_count).map(World::node_id);
        let is_sick = blocks.is_empty() || blocks.iter().any(|view| !all().any(|id| is_sound(world, id, view)));
        let lacks = |id: NodeId| blocks.iter().filter(move |view| !is_fit(world, id, view));
        let here: Vec<NodeId> = members.iter().copied().filter(|id| is_up(world, *id)).collect();
        let holder_count = here.iter().filter(|id| lacks(**id).next().is_none()).count();
        if is_sick || !open.is_empty() || sources.is_empty() || holder_count >= wanted {
            continue;
        }
        short_count += 1;
        // What a node lacks and cannot put keeps others off the room that it has.
        let free = |id: NodeId| {
            let free = world.node(World::node_number(id)).map_or(0, |node| node.volume.free_len());
            free.saturating_sub(leader.needed_len_on(id) as usize)
        };
        // Who alone has been there for long enough is not let go, though others may have all by now.
        let is_alone = sources.len() == 1 && lacks(sources[0]).next().is_some();
        let taker = all().find(|id| !is_alone && !members.contains(id) && is_up(world, *id) && free(*id) >= len);
        let copier = here.iter().copied().find(|id| lacks(*id).any(|view| free(*id) as u64 >= view.len));
        if let Some(node) = taker.or(copier).map(World::node_number) {
            unrest.push(format!("{home:?} of {members:?} has {holder_count} copies, and node {node} has room for it"));
        }
    }
    if short_count > 0 && leader.shortage().container_count == 0 {
        unrest.push(format!("{short_count} containers lack copies, and no lack of room or nodes is told"));
    }
    unrest
}

fn is_up(world: &World, id: NodeId) -> bool {
    world.node(World::node_number(id)).is_some()
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
    let rows = leader.all_rows();
    let mut unrest = Vec::new();
    let (open, _) = read::open_files(&rows, types::InodeId(0), 10_000).expect("memory can be read");
    // Of a block whose file is open nobody is asked.
    let unconfirmed = leader.see_cluster(lead::Cluster::unconfirmed_len).filter(|len| *len > 0 && open.is_empty());
    unrest.extend(unconfirmed.map(|len| format!("{len} bytes that writers named are not confirmed by any node")));
    let open = open.iter().filter(|file| !waits_for_the_lost(world, &rows, &file.path));
    unrest.extend(open.map(|file| format!("{} is open by {}", file.path, file.holder.holder)));
    let doomed = read::doomed_blocks(&rows, None, 10_000).expect("memory can be read");
    unrest.extend(doomed.iter().map(|doomed| format!("{doomed:?} is not forgotten")));
    let resized = read::resized_files(&rows, None, 10_000).expect("memory can be read");
    let resized = resized.iter().filter(|file| !has_missing(world, &rows, **file));
    unrest.extend(resized.map(|file| format!("{file} has not got its number of copies")));
    if read::has_deleted_trees(&rows).expect("memory can be read") {
        unrest.push("a deleted tree is not freed".into());
    }
    let sealed = leader.see_cluster(|cluster| {
        let sealed = cluster.containers().filter(|(_, container)| container.state == ContainerState::Sealed);
        sealed.map(|(home, _)| home).collect::<Vec<_>>()
    });
    let emptied = sealed.unwrap_or_default().into_iter();
    let emptied = emptied.filter(|home| read::is_empty(&rows, *home).expect("memory can be read"));
    unrest.extend(emptied.map(|home| format!("{home:?} is sealed and empty, and still there")));
    for number in 0..world.plan.node_count {
        let Some(node) = world.node(number) else { continue };
        for info in node.volume.replicas() {
            if let Some(why) = useless(world, &leader, number, &info) {
                unrest.push(format!("node {number}: {info:?}: {why}"));
            }
        }
    }
    unrest.extend(short(world, &leader));
    unrest
}

/// Bytes of its last block are recorded, and no node has them, or none has them unharmed where they are to be cut: as
/// in HDFS such a file stays open, since whoever has them may come back. Whether they were promised to anybody is for
/// [`promises`] to find.
fn waits_for_the_lost(world: &World, rows: &MemoryRows, path: &str) -> bool {
    let Ok(path) = FsPath::parse(path) else { return false };
    let Ok(file) = read::located(rows, &Caller::system(), &path, 0, u64::MAX).expect("memory can be read") else {
        return false;
    };
    file.blocks.last().is_some_and(|view| is_lost(world, rows, view))
}

fn is_lost(world: &World, rows: &MemoryRows, view: &BlockView) -> bool {
    let cut = read::cut_len(rows, view.block).expect("memory can be read");
    let len = cut.unwrap_or(view.len) as usize;
    let has = |number| {
        let platter = world.node_platter(number).borrow();
        let stored = platter.open.get(&view.block).or_else(|| platter.shelf.get(&view.block));
        stored.map(|stored| stored.image()).is_some_and(|image| {
            // What is older may lack what came since, or have what was cut off and written again.
            image.identity.generation >= view.generation && image.data.len() >= len && image.can_cut(len)
        })
    };
    view.len > 0 && !(0..world.plan.node_count).any(has)
}

/// True if nobody has a sound copy of one of its blocks, so it cannot get another home.
fn has_missing(world: &World, rows: &MemoryRows, file: FileId) -> bool {
    let found = read::file_replicas(rows, file, 0, 10_000).expect("memory can be read");
    let blocks = found.map(|found| found.blocks).unwrap_or_default();
    blocks.iter().any(|view| !(0..world.plan.node_count).any(|number| is_sound(world, World::node_id(number), view)))
}

fn is_fit(world: &World, id: NodeId, view: &BlockView) -> bool {
    let info = world.node(World::node_number(id)).and_then(|node| node.volume.find(view.block));
    info.is_some_and(|info| {
        info.state == ReplicaState::Finalized
            && info.identity.generation >= view.generation
            && info.len as u64 >= view.len
    })
}

fn is_sound(world: &World, id: NodeId, view: &BlockView) -> bool {
    let platter = world.node_platter(World::node_number(id)).borrow();
    let image = platter.shelf.get(&view.block).map(|stored| stored.image());
    is_fit(world, id, view) && image.is_some_and(|image| image.verifies(image.data.len()))
}

fn useless(world: &World, leader: &Rc<Metad>, number: usize, info: &Info) -> Option<&'static str> {
    let Some(view) = leader.view_of(info.identity.block) else { return Some("no file owns it") };
    let id = World::node_id(number);
    let members = leader.see_cluster(|cluster| cluster.member_ids(view.home).to_vec()).unwrap_or_default();
    let others = members.iter().filter(|member| **member != id && is_sound(world, **member, &view)).count();
    match () {
        // Without another it may be the best that is left.
        () if info.identity.generation < view.generation => (others > 0).then_some("it is stale"),
        () if !members.contains(&id) => (others >= members.len()).then_some("its home is elsewhere"),
        () if info.state != ReplicaState::Finalized && !view.complete => {
            (!is_lost(world, &leader.all_rows(), &view)).then_some("it is not finalized")
        }
        () => None,
    }
}

/// Blocks that have fewer copies than they should, though somebody has a sound one.
fn short(world: &World, leader: &Rc<Metad>) -> Vec<String> {
    let homes = leader.see_cluster(|cluster| {
        let homes = cluster.containers().map(|(home, _)| {
            let members = cluster.member_ids(home).to_vec();
            let is_anybody_whole = members.iter().any(|id| cluster.is_whole(home, *id));
            (home, cluster.wanted(home), members, is_anybody_whole)
        });
        homes.collect::<Vec<_>>()
    });
    let mut short = Vec::new();
    let mut is_known = true;
    let mut odd = Vec::new();
    for (home, wanted, members, is_anybody_whole) in homes.unwrap_or_default() {
        let mut is_used = false;
        let mut place = Some(Place::start(home));
        while let Some(from) = place {
            let page = read::container_page(&leader.all_rows(), home, from, 1000).expect("memory can be read");
            place = page.next;
            is_used |= page.blocks.len() + page.open.len() > 0;
            is_known &= page.open.is_empty();
            for view in &page.blocks {
                let there = (0..world.plan.node_count).map(World::node_id).any(|id| is_sound(world, id, view));
                // It is passed over if somebody with all the rest was asked; else those who had it are waited for.
                is_known &= there || is_anybody_whole;
                let lacks = members.iter().filter(|id| there && !is_fit(world, **id, view));
                short.extend(lacks.map(|id| format!("node {} lacks {view:?}", World::node_number(*id))));
            }
        }
        if is_used && members.len() != usize::from(wanted) {
            odd.push((home, wanted, members));
        }
    }
    // While nobody has a block of some container of a set, nobody of the set who may have it is let go.
    odd.retain(|(_, wanted, members)| members.len() < usize::from(*wanted) || is_known);
    short.extend(
        odd.iter().map(|(home, wanted, members)| format!("{home:?} should have {wanted} members and has {members:?}")),
    );
    short
}

/// What is damaged on a node though another one has a sound copy. Everything was read before.
pub(crate) fn damage(world: &World) -> Vec<String> {
    let Some(leader) = world.leader() else { return vec!["nobody leads".into()] };
    let homes = leader.see_cluster(|cluster| {
        let homes = cluster.containers().map(|(home, _)| (home, cluster.member_ids(home).to_vec()));
        homes.collect::<Vec<_>>()
    });
    let mut damage = Vec::new();
    for (home, members) in homes.unwrap_or_default() {
        let page = read::container_page(&leader.all_rows(), home, Place::start(home), usize::MAX);
        for view in page.expect("memory can be read").blocks {
            let (sound, bad): (Vec<&NodeId>, Vec<_>) = members.iter().partition(|id| is_sound(world, **id, &view));
            if !sound.is_empty() {
                damage.extend(
                    bad.into_iter().map(|id: &NodeId| format!("{view:?} is damaged on {}", World::node_number(*id))),
                );
            }
        }
    }
    damage
}

/// After all has come to rest: every promise that any node could keep is kept.
pub(crate) fn promises(world: &Rc<World>) {
    world.note_recoveries();
    let Some(leader) = world.leader() else { return };
    let rows = leader.all_rows();
    let oracle = world.oracle.borrow();
    for (id, truth) in &oracle.files {
        if truth.doomed {
            continue;
        }
        let path = read::path_of_inode(&rows, *id).expect("memory can be read");
        let Some(path) = path.and_then(|path| FsPath::parse(&path).ok()) else {
            world.fail(|| format!("{id} is gone, and nobody deleted it"));
            continue;
        };
        let file = read::located(&rows, &Caller::system(), &path, 0, u64::MAX);
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

fn readable(world: &World, leader: &Rc<Metad>, tag: u64, file: FileId, view: &BlockView) -> Result<(), String> {
    let members = leader.see_cluster(|cluster| cluster.member_ids(view.home).to_vec()).unwrap_or_default();
    let mut found = Vec::new();
    let mut numbers: Vec<usize> = members.iter().map(|member| World::node_number(*member)).collect();
    let member_count = numbers.len();
    numbers.extend((0..world.plan.node_count).filter(|number| !members.contains(&World::node_id(*number))));
    for (at, number) in numbers.into_iter().enumerate() {
        let platter = world.node_platter(number).borrow();
        let Some(image) = platter.shelf.get(&view.block).map(|stored| stored.image()) else {
            if at < member_count {
                found.push(format!("node {number}: nothing"));
            }
            continue;
        };
        let len = view.len as usize;
        let fits = image.identity.generation >= view.generation && image.data.len() >= len && image.verifies(len);
        if !fits || at >= member_count {
            let which = if at < member_count { "" } else { ", no member" };
            found.push(format!("node {number}{which}: {:?}, {} bytes", image.identity.generation, image.data.len()));
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
