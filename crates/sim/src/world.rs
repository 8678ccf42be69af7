//! The whole cluster of one run: its machines, what is on their disks, the wires between them, and what was promised.

use crate::datanode::Datanode;
use crate::disk::Disk;
use crate::executor::{Boxed, HostId, Sim};
use crate::log_platter::LogPlatter;
use crate::member::{Founders, RESTART, Wired, Wires, is_disk_fault};
use crate::metad::{Answer, Home, Metad, Refused, Routed};
use crate::net::{CallError, Net};
use crate::oracle::{Oracle, Promise};
use crate::platter::Platter;
use crate::scenario::Plan;
use crate::socket::Socket;
use crate::tokens::Seen;
use crate::volume::Volume;
use blocks::{Incarnation, Node};
use lead::SILENCE_MAX;
use namespace::BlockView;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use types::{BlockId, FileId, Generation, NodeId};
use wire::PacketFrame;
use wire::node::Deletion;
use wire::packet::Parsed;

/// From the moment that a replica was found to be too many until it is deleted: an answer of its node, a heartbeat.
const UNDER_WAY_MAX: Duration = Duration::from_secs(10);

pub(crate) struct World {
    pub(crate) sim: Sim,
    pub(crate) net: Net,
    pub(crate) plan: Plan,
    wires: Rc<Wires>,
    metads: Vec<MetadSeat>,
    nodes: Vec<NodeSeat>,
    pub(crate) oracle: RefCell<Oracle>,
    spoiled: RefCell<BTreeMap<(usize, BlockId), usize>>,
    /// Sound replicas that went with their disk: which node's, and when.
    died: RefCell<BTreeMap<BlockId, (usize, Duration)>>,
    /// Recoveries of which the rows do not tell yet.
    recoveries: RefCell<BTreeMap<BlockId, Recovery>>,
    /// Blocks that clients got, and for which file.
    given: RefCell<BTreeMap<BlockId, FileId>>,
    failures: RefCell<Vec<String>>,
    /// What an intruder may know.
    pub(crate) tokens_seen: RefCell<Seen>,
    /// What takes connections in the place of a node, by its number.
    pub(crate) scripts: RefCell<BTreeMap<usize, Script>>,
    /// Of a thousand packets, so many get a bit turned over on the wire.
    pub(crate) wire_flips: Cell<usize>,
    pub(crate) fault_count: Cell<u64>,
    /// How many processes of datanodes were started.
    process_count: Cell<u64>,
    /// A node that is not started again while disks are nearly full.
    pub(crate) gone: Cell<Option<usize>>,
    /// Since when safe mode is on for certain.
    pub(crate) frozen_since: Cell<Option<Duration>>,
}

/// What datanodes were asked to do for one recovery of a block.
#[derive(Default)]
struct Recovery {
    generation: Generation,
    /// Those whose replica was damaged when they showed it, and how many bytes before the damage were sound.
    damaged: BTreeMap<NodeId, usize>,
    /// Those that ended their part.
    ended: Vec<NodeId>,
}

pub(crate) type Script = Rc<dyn Fn(Socket)>;

struct MetadSeat {
    home: Home,
    process: RefCell<Option<Rc<Metad>>>,
}

struct NodeSeat {
    disk: Disk,
    platter: Rc<RefCell<Platter>>,
    process: RefCell<Option<Rc<Datanode>>>,
    falls: Cell<u64>,
    /// The process whose heartbeat counted last, and when.
    counted: Cell<Option<(Process, Duration)>>,
}

/// How long a datanode that ended by itself stays down.
const NODE_RESTART: Duration = Duration::from_secs(5);

/// What a file has at an offset.
pub(crate) fn content(tag: u64, offset: usize) -> u8 {
    let mixed = (tag ^ offset as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 56) as u8 ^ (mixed >> 23) as u8
}

pub(crate) fn rack_of(number: usize) -> String {
    format!("/rack{}", number % 2)
}

/// A process of a node, on its own machine or on a copy of it.
pub(crate) fn node_of(process: Process) -> Node {
    let Process { number, incarnation, .. } = process;
    Node {
        id: World::node_id(number),
        ip: process.ip(),
        host: format!("node{number}"),
        xfer_port: 9866,
        ipc_port: 9867,
        info_port: 0,
        storage: format!("storage{number}"),
        rack: rack_of(number),
        incarnation,
        from: process.ip(),
        outside: None,
    }
}

/// One life of a datanode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) number: usize,
    pub(crate) incarnation: Incarnation,
    pub(crate) is_copy: bool,
}

impl Process {
    pub(crate) fn ip(&self) -> String {
        format!("10.0.{}.{}", u8::from(self.is_copy), self.number)
    }

    pub(crate) fn xfer_addr(&self) -> String {
        format!("{}:9866", self.ip())
    }
}

/// Until whoever had a call under way with a process that was killed has seen so.
const HUNG_UP: Duration = Duration::from_millis(1);

impl World {
    pub(crate) fn new(sim: Sim, plan: Plan) -> (Rc<Self>, (Wired, Routed)) {
        let net = Net::new(sim.clone());
        let (wires, wired) = Wires::new(sim.clone(), net.clone(), |id| Self::metad_host(id as usize - 1));
        let metads = (0..plan.metad_count).map(|number| MetadSeat {
            home: Home::new(Self::member_id(number), sim.split()),
            process: RefCell::default(),
        });
        let nodes = (0..plan.node_count).map(|number| NodeSeat {
            disk: Disk::new(sim.clone(), plan.capacities[number]),
            platter: Rc::default(),
            process: RefCell::default(),
            falls: Cell::default(),
            counted: Cell::default(),
        });
        let world = Self {
            net,
            wires,
            metads: metads.collect(),
            nodes: nodes.collect(),
            oracle: RefCell::default(),
            spoiled: RefCell::default(),
            died: RefCell::default(),
            recoveries: RefCell::default(),
            given: RefCell::default(),
            failures: RefCell::default(),
            tokens_seen: RefCell::default(),
            scripts: RefCell::default(),
            wire_flips: Cell::default(),
            fault_count: Cell::default(),
            process_count: Cell::default(),
            gone: Cell::default(),
            frozen_since: Cell::default(),
            plan,
            sim,
        };
        let world = Rc::new(world);
        let routed = Routed::through(&world);
        (world, (wired, routed))
    }

    /// In its group.
    fn member_id(number: usize) -> u64 {
        number as u64 + 1
    }

    pub(crate) fn metad_host(number: usize) -> HostId {
        HostId(number as u32)
    }

    pub(crate) fn node_host(number: usize) -> HostId {
        HostId(100 + number as u32)
    }

    /// Of the copy of a node's machine.
    pub(crate) fn copy_host(number: usize) -> HostId {
        HostId(300 + number as u32)
    }

    /// A process of a node begins.
    pub(crate) fn process(&self, number: usize, is_copy: bool) -> Process {
        self.process_count.set(self.process_count.get() + 1);
        let incarnation = Incarnation { start_ms: self.sim.now().as_millis() as u64, nonce: self.process_count.get() };
        Process { number, incarnation, is_copy }
    }

    /// A heartbeat counts as its node's. That of another machine may only when the former one was silent for long, or
    /// has ended; a last heartbeat of its may be answered after that.
    pub(crate) fn counts(&self, process: Process) {
        if !self.is_alive(process) {
            return;
        }
        let now = self.sim.now();
        let before = self.nodes[process.number].counted.replace(Some((process, now)));
        let Some((other, at)) = before.filter(|(other, _)| other.is_copy != process.is_copy) else { return };
        if now - at <= SILENCE_MAX {
            self.fail(|| format!("two processes are node {} at the same time: {other:?}, {process:?}", process.number));
        }
    }

    fn is_alive(&self, process: Process) -> bool {
        let number = process.number;
        match process.is_copy {
            true => self.net.is_up(Self::copy_host(number)),
            false => self.node(number).is_some_and(|node| node.process == process),
        }
    }

    /// A node's process ends, as another one has its id. Whoever looks after it starts it again.
    pub(crate) fn node_ends(self: &Rc<Self>, number: usize, why: &str) {
        self.sim.say(|| format!("node {number} ends: {why}"));
        let world = Rc::clone(self);
        self.sim.spawn(HostId::NOBODY, async move {
            world.stop_node(number, false);
            world.sim.sleep(NODE_RESTART).await;
            if !world.net.is_up(Self::node_host(number)) {
                world.start_node(number);
            }
        });
    }

    pub(crate) fn client_host(number: usize) -> HostId {
        HostId(200 + number as u32)
    }

    /// Whose address it is, `ip:port`.
    pub(crate) fn host_of_addr(addr: &str) -> HostId {
        let mut parts = addr.split([':', '.']).map(|part| part.parse::<usize>().expect("an address of ours"));
        let (role, copy, number) = (parts.nth(1), parts.next(), parts.next());
        if let (Some(1), Some(id)) = (role, number) {
            return Self::metad_host(id - 1);
        }
        match (copy, number) {
            (Some(0), Some(number)) => Self::node_host(number),
            (_, Some(number)) => Self::copy_host(number),
            _ => panic!("{addr} is no address of ours"),
        }
    }

    pub(crate) fn node_of_addr(addr: &str) -> NodeId {
        let number = addr.split([':', '.']).nth(3).and_then(|part| part.parse().ok());
        Self::node_id(number.expect("an address of ours"))
    }

    /// The number of the member on a host of metadata servers.
    pub(crate) fn member_on(host: HostId) -> Option<usize> {
        (host.0 < Self::node_host(0).0).then_some(host.0 as usize)
    }

    /// The process on a host of nodes; a copy of a machine answers nobody.
    pub(crate) fn node_on(&self, host: HostId) -> Option<Rc<Datanode>> {
        (0..self.plan.node_count).find(|number| Self::node_host(*number) == host).and_then(|number| self.node(number))
    }

    pub(crate) fn node_id(number: usize) -> NodeId {
        NodeId([number as u8 + 1; 16])
    }

    pub(crate) fn node_number(id: NodeId) -> usize {
        usize::from(id.0[0]) - 1
    }

    pub(crate) fn fail(&self, what: impl FnOnce() -> String) {
        let what = what();
        self.sim.say(|| format!("FAILURE {what}"));
        self.failures.borrow_mut().push(what);
    }

    pub(crate) fn failures(&self) -> Vec<String> {
        self.failures.borrow().clone()
    }

    // ── processes ──

    pub(crate) fn start_metad(self: &Rc<Self>, number: usize) {
        let host = Self::metad_host(number);
        self.net.up(host);
        let world = Rc::clone(self);
        self.sim.spawn(host, async move {
            let why = world.run_metad(number).await;
            world.sim.say(|| format!("metad {number} ends: {why}"));
            if !is_disk_fault(&why) {
                world.fail(|| format!("metad {number} ends: {why}"));
            }
            let again = Rc::clone(&world);
            world.sim.spawn(HostId::NOBODY, async move {
                again.stop_metad(number, false);
                again.sim.sleep(RESTART).await;
                if !again.net.is_up(host) {
                    again.start_metad(number);
                }
            });
        });
    }

    /// Why the process ended.
    async fn run_metad(self: &Rc<Self>, number: usize) -> String {
        let (place, count) = (&self.metads[number], self.plan.metad_count);
        let founders = Founders { count: count as u64, retain_len: self.plan.retain_len };
        let start = async || place.home.start((count > 1).then_some(founders), &self.plan).await;
        let mut started = start().await;
        if let Err(metad::StartError::Store(kv::KvError::InUse { .. })) = started {
            // The one before was killed at this moment, and calls that others have under way there end when these do.
            self.sim.sleep(HUNG_UP).await;
            started = start().await;
        }
        let server = match started {
            Ok(server) => server,
            Err(error) => return error.to_string(),
        };
        let failed = server.failed();
        let metad = Metad::new(Rc::clone(self), server);
        let handler = Rc::clone(&metad);
        self.wires.serve_member(Self::member_id(number), move |message| {
            let metad = Rc::clone(&handler);
            Box::pin(async move { metad.server.on_member_message(&message).await })
        });
        *place.process.borrow_mut() = Some(metad);
        failed.await.reason
    }

    pub(crate) fn stop_metad(&self, number: usize, power: bool) {
        let (place, host) = (&self.metads[number], Self::metad_host(number));
        if !self.net.is_up(host) && !power {
            return;
        }
        self.net.down(host, power);
        self.wires.hang_up(Self::member_id(number));
        let process = place.process.borrow_mut().take();
        drop(process);
        self.sim.kill(host);
        if let Err(why) = place.home.fall(power) {
            self.fail(|| why);
        }
    }

    /// The disk of a metadata server that is down is lost, and the next process begins with a backup of its rows.
    pub(crate) fn restore_metad(&self, number: usize, backup: &Path) {
        if let Err(error) = self.metads[number].home.restore(backup) {
            self.fail(|| format!("a backup is not restored: {error}"));
        }
    }

    pub(crate) fn start_node(self: &Rc<Self>, number: usize) {
        if self.gone.get() == Some(number) {
            return;
        }
        let seat = &self.nodes[number];
        seat.disk.restart();
        self.net.up(Self::node_host(number));
        let platter = Rc::clone(&seat.platter);
        let volume = Volume::open(self.sim.clone(), seat.disk.clone(), platter, self.plan.synced);
        let node = Datanode::new(Rc::clone(self), number, volume);
        *seat.process.borrow_mut() = Some(Rc::clone(&node));
        node.start();
    }

    pub(crate) fn stop_node(&self, number: usize, power: bool) {
        let (seat, host) = (&self.nodes[number], Self::node_host(number));
        self.net.down(host, power);
        self.sim.kill(host);
        let process = seat.process.borrow_mut().take();
        if let Some(node) = process {
            self.ended(node.process, power);
        }
        if power {
            seat.falls.set(seat.falls.get() + 1);
            let mut random = self.sim.split();
            seat.platter.borrow_mut().lose_power(&mut random);
        }
    }

    /// A process of a node has ended: another may be the node. If it did not lose power, the system closes its
    /// connections, and metadata servers that are reached hear of it.
    pub(crate) fn ended(&self, process: Process, power: bool) {
        let counted = &self.nodes[process.number].counted;
        counted.set(counted.get().filter(|(counted, _)| *counted != process));
        if power {
            return;
        }
        for (number, place) in self.metads.iter().enumerate() {
            let (from, to) = (Self::node_host(process.number), Self::metad_host(number));
            let Some(metad) = place.process.borrow().clone().filter(|_| !self.net.is_cut(from, to)) else { continue };
            let (sim, after) = (self.sim.clone(), self.net.latency());
            self.sim.spawn(to, async move {
                sim.sleep(after).await;
                metad.hung_up(process);
            });
        }
    }

    pub(crate) fn falls(&self, number: usize) -> u64 {
        self.nodes[number].falls.get()
    }

    pub(crate) fn node_disk(&self, number: usize) -> &Disk {
        &self.nodes[number].disk
    }

    pub(crate) fn metad_log(&self, number: usize) -> &LogPlatter {
        &self.metads[number].home.platter
    }

    pub(crate) fn node_platter(&self, number: usize) -> &RefCell<Platter> {
        &self.nodes[number].platter
    }

    pub(crate) fn node(&self, number: usize) -> Option<Rc<Datanode>> {
        self.nodes[number].process.borrow().clone()
    }

    pub(crate) fn metad(&self, number: usize) -> Option<Rc<Metad>> {
        self.metads[number].process.borrow().clone()
    }

    /// The member that leads.
    pub(crate) fn leader(&self) -> Option<Rc<Metad>> {
        let leading = (0..self.plan.metad_count).filter_map(|number| self.metad(number));
        leading
            .filter_map(|metad| Some((metad.reign()?, metad)))
            .max_by_key(|(reign, _)| *reign)
            .map(|(_, metad)| metad)
    }

    /// What a node has of a block is wrong from `place` on, whatever its checksums say later.
    pub(crate) fn spoil(&self, number: usize, block: BlockId, place: usize) {
        let mut spoiled = self.spoiled.borrow_mut();
        let first = spoiled.entry((number, block)).or_insert(place);
        *first = place.min(*first);
    }

    /// A sound copy of a replica was made, or it was cut before the damage: what was spoiled there is no more.
    pub(crate) fn was_copied(&self, number: usize, block: BlockId) {
        self.spoiled.borrow_mut().remove(&(number, block));
    }

    /// No node is ordered to delete anything in safe mode, which was on `since` before the call. When it does so is
    /// another matter: an answer from before may be on its way until a cut is mended.
    pub(crate) fn check_orders(&self, node: NodeId, delete: &[Deletion], since: Option<Duration>) {
        if since.is_some() && self.frozen_since.get() == since && !delete.is_empty() {
            self.fail(|| format!("node {} is to delete {delete:?} in safe mode", Self::node_number(node)));
        }
    }

    /// A finalized replica of this generation or a later one, and it is as it should be.
    pub(crate) fn has_sound(&self, number: usize, block: BlockId, generation: Generation) -> bool {
        let platter = self.nodes[number].platter.borrow();
        let image = platter.shelf.get(&block).map(|stored| stored.image());
        let is_sound =
            |image: &crate::platter::Image| image.identity.generation >= generation && image.verifies(image.data.len());
        image.is_some_and(is_sound) && !self.is_spoiled(number, block)
    }

    /// A block was given to a client, for this file. Nobody else may ever get it for another one.
    pub(crate) fn was_given(&self, block: BlockId, file: FileId) {
        let before = self.given.borrow_mut().insert(block, file);
        if let Some(before) = before.filter(|before| *before != file) {
            self.fail(|| format!("{block:?} was given out twice, for {before} and for {file}"));
        }
    }

    /// A node deleted a replica as it was told. Those who have the block now hold what was promised of it; somebody
    /// must. Who has an older generation does not: a recovery went on without it.
    pub(crate) fn was_deleted(&self, number: usize, block: BlockId, ordered_at: Option<Duration>) {
        self.note_recoveries();
        let recorded = self.leader().and_then(|leader| leader.view_of(block));
        let recorded = recorded.map_or(Generation(0), |view| view.generation);
        let holds = |other: &usize| self.has_sound(*other, block, recorded);
        let others = (0..self.plan.node_count).filter(|other| *other != number).filter(holds);
        let holders: Vec<(NodeId, u64)> = others.map(|other| (Self::node_id(other), self.falls(other))).collect();
        let mut oracle = self.oracle.borrow_mut();
        // Another had a copy, which was read back when it was made, and has rotted since; or its disk died while the
        // order to delete this one was on its way.
        let has = |other: usize| other != number && self.nodes[other].platter.borrow().shelf.contains_key(&block);
        let died = self.died.borrow().get(&block).copied();
        let ordered_at = ordered_at.unwrap_or(self.sim.now());
        let is_excused = (0..self.plan.node_count).any(has)
            || died.is_some_and(|(other, at)| other != number && ordered_at < at + UNDER_WAY_MAX);
        let held = |promise: &Promise| !is_excused && promise.holds(self);
        let from = (Self::node_id(number), self.falls(number));
        if let Some(promise) = oracle.hand_over(from, self.is_spoiled(number, block), block, &holders, held) {
            self.fail(|| format!("node {number} gave up the last copy of {block:?}, but {promise:?}"));
        }
    }

    /// A node is emptied, and taken away with all it has.
    pub(crate) fn take_away(&self, number: usize) {
        let blocks = self.nodes[number].platter.borrow().blocks();
        blocks.into_iter().for_each(|block| self.was_deleted(number, block, None));
        self.stop_node(number, true);
        self.nodes[number].platter.borrow_mut().clear();
    }

    /// A node's disk dies: another comes in its place, with nothing on it.
    pub(crate) fn lose_disk(&self, number: usize) {
        self.stop_node(number, true);
        let sound = self.nodes[number].platter.borrow().sound_blocks();
        self.died.borrow_mut().extend(sound.into_iter().map(|block| (block, (number, self.sim.now()))));
        let blocks = self.nodes[number].platter.borrow().blocks();
        blocks.into_iter().for_each(|block| self.spoil(number, block, 0));
        self.nodes[number].platter.borrow_mut().clear();
    }

    pub(crate) fn is_spoiled(&self, number: usize, block: BlockId) -> bool {
        self.sound_len(number, block).is_some()
    }

    /// How much of what is spoiled there is as it should be.
    fn sound_len(&self, number: usize, block: BlockId) -> Option<usize> {
        self.spoiled.borrow().get(&(number, block)).copied()
    }

    /// Breaks what the processes hold of each other and of this.
    pub(crate) fn take_down(&self) {
        (0..self.metads.len()).for_each(|number| self.stop_metad(number, false));
        for seat in &self.nodes {
            let process = seat.process.borrow_mut().take();
            drop(process);
        }
    }

    // ── calls ──

    pub(crate) async fn call_metad<T: 'static>(
        self: &Rc<Self>,
        from: HostId,
        member: usize,
        limit: Duration,
        call: impl FnOnce(Rc<Metad>) -> Boxed<Answer<T>> + 'static,
    ) -> Result<Result<T, Refused>, CallError> {
        let world = Rc::clone(self);
        let serve = move || Some(call(world.metad(member)?));
        self.net.call(from, Self::metad_host(member), limit, serve).await
    }

    pub(crate) async fn call_node<T: 'static>(
        self: &Rc<Self>,
        from: HostId,
        number: usize,
        limit: Duration,
        call: impl FnOnce(Rc<Datanode>) -> Boxed<T> + 'static,
    ) -> Result<T, CallError> {
        let world = Rc::clone(self);
        let serve = move || Some(call(world.node(number)?));
        self.net.call(from, Self::node_host(number), limit, serve).await
    }

    /// Connects to a node, which serves the connection.
    pub(crate) async fn dial(
        self: &Rc<Self>,
        from: HostId,
        number: usize,
        limit: Duration,
        serve: impl FnOnce(Rc<Datanode>, Socket) + 'static,
    ) -> Result<Socket, CallError> {
        let world = Rc::clone(self);
        let accept = move |socket| {
            let script = { world.scripts.borrow().get(&number).cloned() };
            match script {
                Some(script) => {
                    script(socket);
                    true
                }
                None => world.node(number).map(|node| serve(node, socket)).is_some(),
            }
        };
        self.net.dial(from, Self::node_host(number), limit, accept).await
    }

    /// As [`World::dial`], for a write.
    pub(crate) async fn dial_write(
        self: &Rc<Self>,
        from: HostId,
        number: usize,
        limit: Duration,
    ) -> Result<Socket, CallError> {
        let serve = move |node: Rc<Datanode>, socket| {
            let sim = node.sim.clone();
            sim.spawn(Self::node_host(number), node.serve_write(socket));
        };
        self.dial(from, number, limit, serve).await
    }

    /// Which bits of whole packets the wire turns over, and where. Only in their data: what else is hit ends a
    /// connection, or is an ack, which no checksum covers.
    pub(crate) fn flips(&self, packets: &[u8]) -> Vec<(usize, u8)> {
        let (flips, mut at, mut found) = (self.wire_flips.get(), 0, Vec::new());
        while flips > 0
            && at < packets.len()
            && let Ok(Parsed::Whole(frame)) = PacketFrame::parse(&packets[at..])
        {
            if !frame.data.is_empty() && self.sim.below(1000) < flips {
                let place = at + frame.data.start + self.sim.below(frame.data.len());
                found.push((place, 1 << self.sim.below(8)));
                self.fault_count.set(self.fault_count.get() + 1);
            }
            at += frame.packet_len();
        }
        found
    }

    /// The same for bytes of a block that are carried whole.
    pub(crate) fn carry_bytes(&self, bytes: &bytes::Bytes) -> bytes::Bytes {
        let flips = self.wire_flips.get();
        if flips == 0 || bytes.is_empty() || self.sim.below(1000) >= flips {
            return bytes.clone();
        }
        let mut bytes = bytes.to_vec();
        let at = self.sim.below(bytes.len());
        bytes[at] ^= 1 << self.sim.below(8);
        self.fault_count.set(self.fault_count.get() + 1);
        bytes.into()
    }

    // ── promises ──

    /// A node shows its replica for a recovery, which may have rotted, or was torn when the node lost power.
    pub(crate) fn shows_for_recovery(&self, block: BlockId, generation: Generation, number: usize) {
        let platter = self.nodes[number].platter.borrow();
        let image = platter.shelf.get(&block).map(|stored| stored.image());
        let damaged_behind = match image {
            Some(image) if !image.verifies(image.data.len()) => Some(image.sound_len()),
            // What does not show any more was covered by a new checksum.
            _ => self.sound_len(number, block),
        };
        let id = Self::node_id(number);
        self.with_recovery(block, generation, |recovery| {
            match damaged_behind {
                Some(sound_len) => recovery.damaged.insert(id, sound_len),
                None => recovery.damaged.remove(&id),
            };
        });
    }

    /// A node has ended its part of a recovery.
    pub(crate) fn ends_recovery(&self, block: BlockId, generation: Generation, node: NodeId) {
        let number = Self::node_number(node);
        let len = self.nodes[number].platter.borrow().shelf.get(&block).map(|stored| stored.image().data.len());
        // Also by a recovery that another one has overtaken.
        if len.zip(self.sound_len(number, block)).is_some_and(|(len, sound_len)| len <= sound_len) {
            self.was_copied(number, block);
        }
        self.with_recovery(block, generation, |recovery| {
            recovery.ended.push(node);
            let sound_len = recovery.damaged.get(&node).copied();
            if len.zip(sound_len).is_some_and(|(len, sound_len)| len <= sound_len) {
                // What was damaged was cut off.
                recovery.damaged.remove(&node);
            }
        });
    }

    fn with_recovery(&self, block: BlockId, generation: Generation, note: impl FnOnce(&mut Recovery)) {
        let mut recoveries = self.recoveries.borrow_mut();
        let recovery = recoveries.entry(block).or_default();
        if recovery.generation < generation {
            *recovery = Recovery { generation, ..Recovery::default() };
        }
        if recovery.generation == generation {
            note(recovery);
        }
    }

    /// Who took no part in a recovery, or could not end it, is stale from the moment that its end is recorded.
    pub(crate) fn note_recoveries(&self) {
        let Some(leader) = self.leader() else { return };
        let mut recoveries = std::mem::take(&mut *self.recoveries.borrow_mut());
        recoveries.retain(|block, recovery| {
            let Some(view) = leader.view_of(*block) else { return true };
            if view.complete && view.generation == recovery.generation && !recovery.ended.is_empty() {
                self.was_recovered(&view, recovery);
            }
            !view.complete || view.generation < recovery.generation
        });
        self.recoveries.borrow_mut().append(&mut recoveries);
    }

    /// It must not have left who is sound for those who were damaged before they were asked, in what is left of the
    /// block.
    fn was_recovered(&self, view: &BlockView, recovery: &Recovery) {
        let Recovery { damaged, ended, .. } = recovery;
        let (file, block) = (view.file, view.block);
        let was_damaged = |node: &NodeId| damaged.get(node).is_some_and(|sound_len| (*sound_len as u64) < view.len);
        let mut oracle = self.oracle.borrow_mut();
        // One that was made by copying since is as good as those of the promise.
        let is_sound = |node: &NodeId| {
            let platter = self.nodes[Self::node_number(*node)].platter.borrow();
            let image = platter.shelf.get(&block).map(|stored| stored.image());
            !was_damaged(node) && image.is_some_and(|image| image.verifies(image.data.len()))
        };
        let has_sound = ended.iter().any(is_sound);
        let is_believed = |promise: &Promise| {
            let mut left = promise.holders.iter().map(|(node, _)| node).filter(|node| ended.contains(node)).peekable();
            left.peek().is_some() && left.all(was_damaged) && !has_sound
        };
        let is_lost = |promise: &&Promise| promise.block == block && promise.holds(self) && is_believed(promise);
        let lost = oracle.files.get(&file).filter(|truth| !truth.doomed);
        let lost = lost.and_then(|truth| truth.promises.iter().find(is_lost).cloned());
        oracle.go_on_with(file, block, ended);
        if let Some(promise) = lost {
            self.fail(|| format!("a recovery believed {ended:?}, which are damaged, but {promise:?}"));
        }
    }

    pub(crate) fn promise(
        &self,
        file: FileId,
        block: BlockId,
        range: std::ops::Range<usize>,
        holders: &[(NodeId, u64)],
        durable: bool,
    ) {
        self.sim.say(|| {
            let numbers: Vec<usize> = holders.iter().map(|(node, _)| Self::node_number(*node)).collect();
            format!("promised: {file} {range:?} in {block:?} on {numbers:?}, durable: {durable}")
        });
        let promise = Promise { start: range.start, end: range.end, block, holders: holders.to_vec(), durable };
        self.oracle.borrow_mut().promise(file, promise);
    }

    /// `promised` before the read, when the file had been cut `cuts` times.
    pub(crate) fn check_read(&self, reader: &str, file: FileId, bytes: &[u8], promised: &[Promise], cuts: u32) {
        let oracle = self.oracle.borrow();
        let Some(truth) = oracle.files.get(&file) else { return };
        if let Some(at) = bytes.iter().enumerate().position(|(at, byte)| *byte != content(truth.tag, at)) {
            self.fail(|| format!("{reader} read a wrong byte at {at} of {file}"));
        }
        if bytes.len() > truth.sent {
            self.fail(|| format!("{reader} read {} bytes of {file}, only {} were written", bytes.len(), truth.sent));
        }
        let lacking = promised.iter().find(|promise| promise.end > bytes.len() && promise.holds(self));
        if let Some(promise) = lacking.filter(|_| !truth.doomed && truth.cuts == cuts) {
            self.fail(|| format!("{reader} read {} bytes of {file}, but {promise:?}", bytes.len()));
        }
    }
}
