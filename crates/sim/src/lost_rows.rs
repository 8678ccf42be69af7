//! A metadata server loses its disk, and goes on with a backup of its rows; datanodes and clients go on, too.
//!
//! ```text
//! files ── backup ── more files, blocks appended, a block left open │ rows lost, restored │ found blocks are listed,
//!                                                                   │ more files          │ recovered, saved, released
//! ```
//!
//! It has a small cluster of its own, in which nothing else fails: so it is known which replicas the rows have lost.
//! Checked: none of them is deleted before it was released; each is listed when its datanode has reported; nothing is
//! released that was not listed; what was acknowledged of it is read as it was written, also of a block that nobody had
//! finished; after all that the files of the rows are whole, and nothing is left over.

use crate::administrator::ask;
use crate::client::{BLOCK_LEN, Client, Shape, Writer};
use crate::executor::{HostId, Sim};
use crate::metad::Metad;
use crate::oracle::Promise;
use crate::reads::Ask;
use crate::scenario::Plan;
use crate::world::{World, content};
use crate::{Options, check};
use hdfs::proto::TokenProto;
use namespace::read;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;
use types::mutation::Mutation;
use types::random::Seeded;
use types::{BlockId, FsPath, Generation, NodeId, Random};
use wire::admin::backup::{BlockToken, FoundBlock, FoundReplica};
use xfer::read::Extent;

/// Of so many seeds one loses its rows.
const EACH: usize = 3;
/// So that it has nothing to do with the seed's other cluster.
const SEED: u64 = 0x1057_2035;
/// Tags of what one client writes begin with its number.
const TAG: u64 = 1 << 33;
const REGISTERED_WITHIN: Duration = Duration::from_secs(3);
const LOOK_EACH: Duration = Duration::from_millis(500);
/// Leases of the leader before run out, and datanodes report a few times.
const WAIT_MAX: Duration = Duration::from_secs(400);
const STORY_MAX: Duration = Duration::from_secs(3000);
/// How long the metadata server is away.
const RESTORED_WITHIN: Duration = Duration::from_secs(10);
/// How long a writer goes on with a file that the rows do not know.
const GOES_ON_MAX: usize = 20;
/// For all datanodes to answer, some of which do not.
const RECOVERED_WITHIN: Duration = Duration::from_secs(60);
/// Until datanodes have the keys with which a restored server signs tokens: with the next heartbeats.
const KEYS_WITHIN: Duration = Duration::from_secs(60);
/// Until metadata servers hear of a node that was out of sight.
const SEEN_WITHIN: Duration = Duration::from_secs(4);

/// Faults that only this can show; all others have seeds whose history stays as it is.
const SHOWS: [Mutation; 3] = [Mutation::DeleteFound, Mutation::ReleaseUnlisted, Mutation::RecoverFoundAlone];

type Told<T = ()> = Result<T, String>;
/// Blocks of which no row tells.
type Lost = BTreeMap<BlockId, LostBlock>;

struct LostBlock {
    /// What its bytes are made of.
    tag: u64,
    promises: Vec<Promise>,
    /// All nodes that had something of it when the rows were lost.
    nodes: BTreeSet<usize>,
}

/// What failed, in the seeds that have this.
pub(crate) fn run(seed: u64, options: Options) -> Vec<String> {
    let is_shown = options.mutation.is_none_or(|mutation| SHOWS.contains(&mutation));
    if options.rolling || !is_shown || Seeded(seed ^ SEED).below(EACH) != 0 {
        return Vec::new();
    }
    let sim = options.begin(seed ^ SEED);
    let _installed = sim.install();
    let (world, _wired) = World::new(sim.clone(), Plan::of_lost_rows(seed));
    sim.say(|| format!("lost rows: {:?}", world.plan));
    world.start_metad(0);
    (0..world.plan.node_count).for_each(|number| world.start_node(number));
    let (over, at) = (Rc::new(Cell::new(false)), Rc::clone(&world));
    let ended = Rc::clone(&over);
    sim.spawn(HostId::NOBODY, async move {
        if let Err(why) = play(Rc::clone(&at)).await {
            at.fail(|| format!("lost rows: {why}"));
        }
        ended.set(true);
    });
    while !over.get() && sim.now() < STORY_MAX && world.failures().is_empty() {
        sim.run_until(sim.now() + LOOK_EACH);
        check::contradictions(&world);
        check::picture(&world);
    }
    if world.failures().is_empty() {
        check::rows(&world);
    }
    if !over.get() && world.failures().is_empty() {
        world.fail(|| "lost rows: it does not end".to_owned());
    }
    let failures = world.failures();
    world.take_down();
    sim.clear();
    failures
}

async fn play(world: Rc<World>) -> Told {
    let sim = world.sim.clone();
    sim.sleep(REGISTERED_WITHIN).await;
    let story = Story { world: Rc::clone(&world), paths: RefCell::default(), next: Cell::default() };

    let before = story.client(0);
    for _ in 0..1 + sim.below(4) {
        story.write_any(&before).await?;
    }
    let mut across = if sim.one_in(2) { Some(story.begin(&before, 1 + sim.below(BLOCK_LEN)).await?) } else { None };
    let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
    let file = dir.path().join("backup");
    let to = file.clone();
    ask(&world, |leader: Rc<Metad>| leader.back_up(to)).await.ok_or("no backup is made")?;
    sim.say(|| "BACKUP".to_owned());
    for _ in 0..1 + sim.below(4) {
        story.write_any(&before).await?;
    }
    if sim.one_in(2) {
        story.append_any(&before).await?;
    }
    if let Some(writer) = &mut across {
        written(writer.write(1 + sim.below(2 * BLOCK_LEN)).await)?;
    }
    let (left, out) = story.leave_open(&before).await?;

    // Whoever is late has something that nobody else can tell of.
    let late = story.late(&before, out).await?;
    if let Some(late) = late {
        world.stop_node(late, false);
    }
    sim.say(|| "ROWS ARE LOST".to_owned());
    world.stop_metad(0, sim.one_in(2));
    story.go_on_or_die(&before, vec![left], across);
    sim.sleep(sim.between(Duration::ZERO, RESTORED_WITHIN)).await;
    world.restore_metad(0, &file);
    world.start_metad(0);
    if !world.net.is_up(World::node_host(out)) {
        world.start_node(out);
    }
    let lost = story.lose().await?;

    let after = story.client(1);
    for _ in 0..1 + sim.below(3) {
        story.write_any(&after).await?;
    }
    story.read_all(&after).await?;
    let found = story.listed(&lost, late).await?;
    if let Some(late) = late {
        let count = found.len() as u64;
        if ask(&world, |leader: Rc<Metad>| leader.release_found(count)).await.is_some() {
            return Err(format!("found blocks were released unseen, as node {late} has not reported what it has"));
        }
        world.start_node(late);
        story.listed(&lost, None).await?;
    }
    story.recover_open(&after, &lost).await?;
    story.end(&before);
    story.save_all(&after, &lost).await?;
    story.are_kept(&lost)?;
    story.release(&lost).await?;
    story.read_all(&after).await?;
    story.until("nothing is left over", || check::unrest(&world).into_iter().next()).await
}

fn written<T>(done: crate::client::Result<T>) -> Told<T> {
    // Nothing fails here that a client could not go on after.
    done.map_err(|error| format!("a client cannot go on: {error:?}"))
}

fn path(text: &str) -> FsPath {
    FsPath::parse(text).expect("a sound path")
}

struct Story {
    world: Rc<World>,
    /// Files that are closed, by the clients.
    paths: RefCell<Vec<FsPath>>,
    next: Cell<u64>,
}

impl Story {
    fn sim(&self) -> &Sim {
        &self.world.sim
    }

    fn client(&self, number: usize) -> Rc<Client> {
        let host = World::client_host(number);
        self.world.net.up(host);
        let client = Client::new(Rc::clone(&self.world), number, number as u64 + 1);
        client.is_honest.set(true);
        self.sim().spawn(host, Rc::clone(&client).renew_always());
        client
    }

    /// A name and what its bytes are made of.
    fn next(&self) -> (FsPath, u64) {
        self.next.set(self.next.get() + 1);
        (path(&format!("/rows/{}", self.next.get())), TAG + self.next.get())
    }

    async fn begin(&self, client: &Rc<Client>, len: usize) -> Told<Writer> {
        let (path, tag) = self.next();
        let mut writer = written(client.create(&path, tag, 2 + self.sim().below(2) as u16, Shape::Chain, false).await)?;
        written(writer.write(len).await)?;
        written(writer.flush(self.sim().one_in(2)).await)?;
        Ok(writer)
    }

    /// A file, small or of some blocks.
    async fn write_any(&self, client: &Rc<Client>) -> Told {
        let sim = self.sim();
        let ((path, tag), replication) = (self.next(), 2 + sim.below(2) as u16);
        if sim.one_in(2) {
            written(client.put_small(&path, tag, 1 + sim.below(BLOCK_LEN - 1), replication, sim.one_in(2)).await)?;
        } else {
            let mut writer = written(client.create(&path, tag, replication, Shape::Chain, sim.one_in(2)).await)?;
            written(writer.write(1 + sim.below(3 * BLOCK_LEN)).await)?;
            written(writer.close().await)?;
        }
        self.paths.borrow_mut().push(path);
        Ok(())
    }

    async fn append_any(&self, client: &Rc<Client>) -> Told {
        let path = self.paths.borrow()[0].clone();
        if let Some(mut writer) = written(client.append(&path).await)? {
            written(writer.write(1 + self.sim().below(2 * BLOCK_LEN)).await)?;
            written(writer.close().await)?;
        }
        Ok(())
    }

    /// A block that is open: one of its nodes fell out of the chain, and the others went on.
    async fn leave_open(&self, client: &Rc<Client>) -> Told<(Writer, usize)> {
        let (path, tag) = self.next();
        let mut writer = written(client.create(&path, tag, 3, Shape::Chain, false).await)?;
        written(writer.write(1 + self.sim().below(BLOCK_LEN / 3)).await)?;
        written(writer.flush(false).await)?;
        let out = World::node_number(*writer.nodes().last().ok_or("an open block has nodes")?);
        self.world.stop_node(out, false);
        written(writer.write(1 + self.sim().below(BLOCK_LEN / 3)).await)?;
        written(writer.flush(true).await)?;
        Ok((writer, out))
    }

    /// In half of the runs a node that is away while the rows are lost; it has a block that no other has.
    async fn late(&self, client: &Rc<Client>, out: usize) -> Told<Option<usize>> {
        if self.sim().one_in(2) {
            return Ok(None);
        }
        let (path, tag) = self.next();
        written(client.put_small(&path, tag, 40, 1, true).await)?;
        self.paths.borrow_mut().push(path.clone());
        let (_, located) = written(client.call(move |metad, _| Box::pin(metad.located(path.clone()))).await)?;
        let node = located.first().and_then(|located| located.nodes.first()).ok_or("a file has a node")?;
        Ok(Some(World::node_number(*node)).filter(|late| *late != out))
    }

    /// The client dies with the rows, or knows nothing of that and writes on.
    fn go_on_or_die(&self, client: &Rc<Client>, left: Vec<Writer>, across: Option<Writer>) {
        let host = client.host;
        if self.sim().one_in(2) {
            drop((left, across));
            return self.end(client);
        }
        let sim = self.sim().clone();
        self.sim().spawn(host, async move {
            let mut writers: Vec<Writer> = left.into_iter().chain(across).collect();
            for _ in 0..sim.below(GOES_ON_MAX) {
                sim.sleep(sim.between(Duration::ZERO, Duration::from_secs(2))).await;
                for mut writer in std::mem::take(&mut writers) {
                    // The rest of the block is all that it gets.
                    if writer.stays_in_block(5) && writer.write(5).await.is_ok() {
                        writers.push(writer);
                    }
                }
            }
        });
    }

    fn end(&self, client: &Client) {
        self.world.net.down(client.host, self.sim().one_in(2));
        self.sim().kill(client.host);
    }

    /// Everything that was promised of blocks that the restored rows do not know.
    async fn lose(&self) -> Told<Lost> {
        self.until("a restored server leads", || self.world.leader().is_none().then(|| "nobody".to_owned())).await?;
        let leader = self.world.leader().ok_or("it led a moment ago")?;
        let rows = leader.all_rows();
        let has_file = |file| read::path_of_inode(&rows, file).expect("memory can be read").is_some();
        let has_block = |block| leader.view_of(block).is_some();
        let lost = self.world.oracle.borrow_mut().lose(has_file, has_block).into_iter();
        let lost = lost.map(|(block, (tag, promises))| {
            let nodes = self.holders(block);
            (block, LostBlock { tag, promises, nodes })
        });
        let lost: Lost = lost.collect();
        let mut kept = self.paths.take();
        let is_there = |path: &FsPath| {
            let located = read::located(&rows, &namespace::Caller::system(), path, 0, 1);
            located.expect("memory can be read").is_ok()
        };
        kept.retain(is_there);
        self.sim().say(|| format!("lost are {:?}, and there are {kept:?}", lost.keys()));
        self.paths.replace(kept);
        Ok(lost)
    }

    /// Nodes that have something of a block, whether they are up or not.
    fn holders(&self, block: BlockId) -> BTreeSet<usize> {
        let has = |number: &usize| self.world.node_platter(*number).borrow().blocks().contains(&block);
        (0..self.world.plan.node_count).filter(has).collect()
    }

    /// No node that should have a lost block has deleted it.
    fn are_kept(&self, lost: &Lost) -> Told {
        for (block, LostBlock { nodes, .. }) in lost {
            let there = self.holders(*block);
            if let Some(gone) = nodes.iter().find(|number| !there.contains(number)) {
                return Err(format!("a found block lost a replica: {block:?} is on {there:?}, and not on node {gone}"));
            }
        }
        Ok(())
    }

    /// `None`: it was refused, or died. All datanodes may be waited for.
    async fn recover(&self, block: u64) -> Option<FoundBlock> {
        let leader = self.world.leader()?;
        self.sim().timeout(RECOVERED_WITHIN, leader.recover_found(block)).await?.ok()
    }

    async fn found(&self) -> Option<(Vec<FoundBlock>, u64)> {
        ask(&self.world, Metad::found).await
    }

    /// Waits until all nodes but one that is late have reported, and answers what is listed then: all that is lost.
    async fn listed(&self, lost: &Lost, late: Option<usize>) -> Told<Vec<FoundBlock>> {
        let end = self.sim().now() + WAIT_MAX;
        loop {
            self.sim().sleep(LOOK_EACH).await;
            self.are_kept(lost)?;
            let Some((found, unreported)) = self.found().await else { continue };
            let lacks = lost.keys().find_map(|block| {
                let listed = found.iter().find(|listed| listed.block == block.0);
                let on = |listed: &FoundBlock| listed.replicas.iter().map(number_of).collect::<BTreeSet<_>>();
                let (listed, mut there) = (listed.map(on).unwrap_or_default(), self.holders(*block));
                there.retain(|number| Some(*number) != late);
                (!there.is_subset(&listed)).then(|| format!("{block:?} is on {there:?}, and listed on {listed:?}"))
            });
            match lacks {
                None if unreported == u64::from(late.is_some()) => return Ok(found),
                lacks if self.sim().now() >= end => {
                    return Err(format!("not all found blocks are listed, {unreported} nodes lack: {lacks:?}"));
                }
                _ => {}
            }
        }
    }

    /// Blocks that nobody had finished get their length: first while those who have the most are out of sight.
    async fn recover_open(&self, client: &Rc<Client>, lost: &Lost) -> Told {
        let (found, _) = self.found().await.ok_or("nobody lists found blocks")?;
        for open in found.iter().filter(|found| found.best().is_some_and(|best| !best.finalized)) {
            let best = open.best().map(|best| best.generation).unwrap_or_default();
            let (ahead, behind): (Vec<&FoundReplica>, Vec<_>) =
                open.replicas.iter().partition(|replica| replica.generation == best);
            if !behind.is_empty() {
                let ahead: Vec<usize> = ahead.into_iter().map(number_of).collect();
                self.hide(&ahead, true);
                let done = self.recover(open.block).await;
                self.hide(&ahead, false);
                self.sim().sleep(SEEN_WITHIN).await;
                if let Some(done) = done {
                    return Err(format!("a found block was recovered without nodes {ahead:?}: {done:?}"));
                }
            }
            self.recovered(client, lost, open.block).await?;
        }
        Ok(())
    }

    async fn recovered(&self, client: &Rc<Client>, lost: &Lost, block: u64) -> Told {
        let end = self.sim().now() + WAIT_MAX;
        loop {
            if let Some(whole) = self.recover(block).await {
                return self.read_found(client, lost, &whole).await.map(drop);
            }
            if self.sim().now() >= end {
                return Err(format!("the found block {block} is not recovered"));
            }
            self.sim().sleep(LOOK_EACH).await;
        }
    }

    /// The metadata server loses sight of these nodes, or sees them again.
    fn hide(&self, nodes: &[usize], hidden: bool) {
        let metad = World::metad_host(0);
        for node in nodes.iter().map(|number| World::node_host(*number)) {
            for (from, to) in [(node, metad), (metad, node)] {
                if hidden { self.world.net.cut(from, to) } else { self.world.net.heal(from, to) }
            }
        }
        self.sim().say(|| format!("{nodes:?} are {}", if hidden { "out of sight" } else { "seen again" }));
    }

    /// Its length, if it has all that was acknowledged, and begins its file.
    async fn read_found(&self, client: &Rc<Client>, lost: &Lost, found: &FoundBlock) -> Told<Option<(u64, usize)>> {
        let block = BlockId(found.block);
        let best = found.best().ok_or("a found block has a replica")?;
        // What nobody was promised may be anything.
        let Some(LostBlock { tag, promises, .. }) = lost.get(&block) else { return Ok(None) };
        let start = promises.iter().map(|promise| promise.start).min().unwrap_or_default();
        let BlockToken { identifier, password } = found.token.clone().unwrap_or_default();
        let token = TokenProto { identifier, password, ..TokenProto::none() };
        let ask = Ask { block, generation: Generation(best.generation), from: 0, end: best.len, extent: Extent::Exact };
        let limits = (Duration::from_secs(10), Duration::from_secs(60));
        let bytes = self.world.read_replica(client.host, number_of(best), ask, token, limits).await;
        let bytes = bytes.map_err(|fault| format!("a found block cannot be read, {found:?}: {fault}"))?;
        if let Some(at) = (0..bytes.len()).find(|at| bytes[*at] != content(*tag, start + at)) {
            return Err(format!("a found block has a wrong byte at {at}, {found:?}"));
        }
        let promised = promises.iter().map(|promise| promise.end).max().unwrap_or_default() - start;
        if bytes.len() < promised {
            return Err(format!(
                "a found block has {} bytes, and {promised} were acknowledged: {found:?}",
                bytes.len()
            ));
        }
        Ok((start == 0).then_some((*tag, bytes.len())))
    }

    /// Each is read from end to end; and those that are all of a file's beginning are files again.
    async fn save_all(&self, client: &Rc<Client>, lost: &Lost) -> Told {
        let finished = || async {
            let (found, _) = self.found().await?;
            let is_whole = |found: &FoundBlock| found.best().is_none_or(|best| best.finalized);
            found.iter().all(is_whole).then_some(found)
        };
        let end = self.sim().now() + WAIT_MAX;
        let found = loop {
            match finished().await {
                Some(found) => break found,
                None if self.sim().now() >= end => return Err("a recovered block is still listed as open".to_owned()),
                None => self.sim().sleep(LOOK_EACH).await,
            }
        };
        for block in found.iter().map(|found| found.block) {
            // Tokens do not last for all of them.
            let (found, _) = self.found().await.ok_or("nobody lists found blocks")?;
            let found = found.into_iter().find(|found| found.block == block).ok_or("it was listed a moment ago")?;
            if let Some((tag, len)) = self.read_found(client, lost, &found).await? {
                let to = path(&format!("/saved/{block}"));
                let mut writer = written(client.create(&to, tag, 2, Shape::Chain, false).await)?;
                written(writer.write(len).await)?;
                written(writer.close().await)?;
                self.paths.borrow_mut().push(to);
            }
        }
        Ok(())
    }

    /// With a wrong number nothing is released; then all is, and goes.
    async fn release(&self, lost: &Lost) -> Told {
        let (found, _) = self.found().await.ok_or("nobody lists found blocks")?;
        let count = found.len() as u64;
        if ask(&self.world, |leader: Rc<Metad>| leader.release_found(count + 1)).await.is_some() {
            return Err(format!("found blocks were released unseen: {count}, and {} were named", count + 1));
        }
        self.are_kept(lost)?;
        ask(&self.world, |leader: Rc<Metad>| leader.release_found(count)).await.ok_or("nothing is released")?;
        self.sim().say(|| format!("{count} found blocks are released"));
        let left = || lost.keys().find(|block| !self.holders(**block).is_empty()).map(|block| format!("{block:?}"));
        self.until("what was released goes", left).await
    }

    /// All files that the rows have are read, and are as they should be.
    async fn read_all(&self, client: &Rc<Client>) -> Told {
        let paths = self.paths.borrow().clone();
        let end = self.sim().now() + KEYS_WITHIN;
        for path in paths {
            while let Err(why) = written(client.read(&path).await) {
                if self.sim().now() >= end {
                    return Err(format!("{path}: {why}"));
                }
                self.sim().sleep(LOOK_EACH).await;
            }
        }
        Ok(())
    }

    /// Waits until `lacks` names nothing more.
    async fn until(&self, what: &str, lacks: impl Fn() -> Option<String>) -> Told {
        let end = self.sim().now() + WAIT_MAX;
        while let Some(lack) = lacks() {
            if self.sim().now() >= end {
                return Err(format!("it does not come about that {what}: {lack}"));
            }
            self.sim().sleep(LOOK_EACH).await;
        }
        Ok(())
    }
}

fn number_of(replica: &FoundReplica) -> usize {
    let node: NodeId = World::node_of_addr(&replica.datanode);
    World::node_number(node)
}
