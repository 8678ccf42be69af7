//! One member of the metadata group: the log's driver, and the state machine behind it.
//!
//! What is simulated is the contract that the crate `raft` gives to metad (a proposal is answered when a majority has it on disk; a
//! read sees all that was answered before), by a log of our own. openraft itself does not run here: see the ADR.

use crate::disk::Disk;
use crate::executor::{Either, HostId, Notify, OnceSender, Sim, oneshot, race};
use crate::raft::{Message, Raft, Saved};
use crate::rows::Journaled;
use blocks::{BlocksError, Cluster};
use namespace::NsError;
use serde::{Deserialize, Serialize};
use std::cell::{Cell, Ref, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use types::random::Seeded;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Command {
    Namespace(namespace::Request),
    Blocks(blocks::Command),
}

#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Nothing,
    Namespace(Result<namespace::Reply, NsError>),
    Blocks(Result<blocks::Reply, BlocksError>),
}

/// This member does not lead, or does not any more. What was proposed may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotLeader;

/// The log on its disk: as written, and as synced.
#[derive(Clone, Default)]
pub(crate) struct LogPlatter {
    pub(crate) written: Saved,
    pub(crate) durable: Saved,
}

type Proposer = OnceSender<Result<Reply, NotLeader>>;
type Reader = OnceSender<Result<(), NotLeader>>;

enum Input {
    Message(usize, u64, Message),
    Propose(Vec<u8>, Proposer),
    Read(Reader),
}

pub(crate) struct Group {
    sim: Sim,
    me: usize,
    hosts: Vec<HostId>,
    inbox: RefCell<VecDeque<Input>>,
    came: Notify,
    machine: RefCell<Machine>,
    /// The term in which this member leads, with everything before applied; 0: it does not.
    reign: Cell<u64>,
    pub(crate) reign_changed: Notify,
    /// A deliberate fault: reads ask nobody whether this member still leads.
    reads_stale: bool,
}

#[derive(Default)]
struct Machine {
    rows: Journaled,
    applied: u64,
    /// The leader's picture of the block side.
    cluster: Option<Cluster>,
}

impl Group {
    pub(crate) fn new(sim: Sim, me: usize, hosts: Vec<HostId>, reads_stale: bool) -> Rc<Self> {
        Rc::new(Self {
            sim,
            me,
            hosts,
            inbox: RefCell::default(),
            came: Notify::default(),
            machine: RefCell::default(),
            reign: Cell::default(),
            reign_changed: Notify::default(),
            reads_stale,
        })
    }

    fn put_in(&self, input: Input) {
        self.inbox.borrow_mut().push_back(input);
        self.came.notify();
    }

    pub(crate) fn deliver(&self, from: usize, term: u64, message: Message) {
        self.put_in(Input::Message(from, term, message));
    }

    /// The term this member leads in, if it does.
    pub(crate) fn reign(&self) -> Option<u64> {
        Some(self.reign.get()).filter(|term| *term > 0)
    }

    pub(crate) async fn propose(&self, command: &Command) -> Result<Reply, NotLeader> {
        let bytes = postcard::to_allocvec(command).expect("commands are plain data");
        let (answer, answered) = oneshot();
        self.put_in(Input::Propose(bytes, answer));
        answered.await.unwrap_or(Err(NotLeader))
    }

    /// Returns when it is certain that this member leads and has applied all that was answered before.
    pub(crate) async fn read_barrier(&self) -> Result<(), NotLeader> {
        if self.reads_stale && self.reign().is_some() {
            return Ok(());
        }
        self.confirm().await
    }

    /// As [`Group::read_barrier`], for who is not a client.
    pub(crate) async fn confirm(&self) -> Result<(), NotLeader> {
        if self.reign().is_none() {
            return Err(NotLeader);
        }
        if self.hosts.len() == 1 {
            return Ok(());
        }
        let (answer, answered) = oneshot();
        self.put_in(Input::Read(answer));
        answered.await.unwrap_or(Err(NotLeader))
    }

    pub(crate) fn rows(&self) -> Ref<'_, types::rows::MemoryRows> {
        Ref::map(self.machine.borrow(), |machine| machine.rows.rows())
    }

    pub(crate) fn applied(&self) -> u64 {
        self.machine.borrow().applied
    }

    pub(crate) fn watch_blocks(&self, lessee: u64, container_len: u64) {
        let mut machine = self.machine.borrow_mut();
        let mut cluster = Cluster::load(machine.rows.rows(), lessee).expect("memory can be read");
        cluster.set_container_len_max(container_len);
        machine.cluster = Some(cluster);
    }

    /// `None` if this member does not lead.
    pub(crate) fn with_cluster<T>(&self, run: impl FnOnce(&mut Cluster) -> T) -> Option<T> {
        self.machine.borrow_mut().cluster.as_mut().map(run)
    }

    /// As [`Group::with_cluster`], for who only looks.
    pub(crate) fn see_cluster<T>(&self, look: impl FnOnce(&Cluster) -> T) -> Option<T> {
        self.machine.borrow().cluster.as_ref().map(look)
    }

    /// Runs until it is dropped. The disk's failure ends it.
    pub(crate) async fn drive(
        self: Rc<Self>,
        disk: Disk,
        platter: Rc<RefCell<LogPlatter>>,
        random: Seeded,
        acks_unsynced: bool,
        peers: impl Fn(usize, u64, Message, usize),
    ) {
        let saved = platter.borrow().written.clone();
        let mut raft = Raft::new(self.me, self.hosts.len(), saved, self.sim.now(), random);
        let mut waiting: BTreeMap<u64, (u64, Proposer)> = BTreeMap::new();
        let mut readers: Vec<(u64, u64, Reader)> = Vec::new();
        // The term this member won last, and the blank entry it began with.
        let mut blank = (0, 0);
        loop {
            if self.inbox.borrow().is_empty() {
                match race(self.came.notified(), self.sim.sleep_until(raft.deadline())).await {
                    Either::First(()) | Either::Second(()) => {}
                }
            }
            let inputs = std::mem::take(&mut *self.inbox.borrow_mut());
            for input in inputs {
                match input {
                    Input::Message(from, term, message) => raft.on_message(from, term, message, self.sim.now()),
                    Input::Propose(bytes, answer) => match raft.propose(bytes) {
                        Some(index) => _ = waiting.insert(index, (raft.term(), answer)),
                        None => answer.send(Err(NotLeader)),
                    },
                    Input::Read(answer) => readers.push((raft.begin_round(), raft.commit(), answer)),
                }
            }
            raft.tick(self.sim.now());
            if raft.is_leader() && blank.0 != raft.term() {
                blank = (raft.term(), raft.log_len());
            }
            loop {
                let (unsaved, out, up_to) = (raft.unsaved(), raft.take_out(), raft.log_len());
                let done = unsaved.is_none();
                if let Some((term, voted, from, entries)) = unsaved {
                    let write = |saved: &mut Saved| {
                        (saved.term, saved.voted) = (term, voted);
                        saved.log.truncate(from);
                        saved.log.extend(entries.iter().cloned());
                    };
                    if disk.write().await.is_err() {
                        return; // no room for the log: the server ends
                    }
                    write(&mut platter.borrow_mut().written);
                    if !acks_unsynced {
                        if disk.sync().await.is_err() {
                            return;
                        }
                        write(&mut platter.borrow_mut().durable);
                    }
                    raft.on_saved(up_to);
                }
                for (to, term, message) in out {
                    peers(self.me, term, message, to);
                }
                if done {
                    break;
                }
            }
            self.apply(&raft, &mut waiting);
            if !raft.is_leader() {
                waiting.clear();
                readers.clear();
            }
            let reign = if raft.is_leader() && raft.commit() >= blank.1 { raft.term() } else { 0 };
            if self.reign.replace(reign) != reign {
                if reign == 0 {
                    self.machine.borrow_mut().cluster = None;
                }
                self.reign_changed.notify();
            }
            let applied = self.applied();
            let mut index = 0;
            while index < readers.len() {
                let (round, commit, _) = &readers[index];
                if raft.is_confirmed(*round) && applied >= *commit && reign > 0 {
                    readers.remove(index).2.send(Ok(()));
                } else {
                    index += 1;
                }
            }
        }
    }

    fn apply(&self, raft: &Raft, waiting: &mut BTreeMap<u64, (u64, Proposer)>) {
        let mut machine = self.machine.borrow_mut();
        while machine.applied < raft.commit() {
            let index = machine.applied + 1;
            let entry = raft.entry(index).expect("a committed entry is in the log");
            let reply = match &entry.command {
                Some(bytes) => machine.run(&postcard::from_bytes(bytes).expect("our own bytes")),
                None => Reply::Nothing,
            };
            machine.applied = index;
            if let Some((term, answer)) = waiting.remove(&index) {
                answer.send(if term == entry.term { Ok(reply) } else { Err(NotLeader) });
            }
        }
    }
}

impl Machine {
    /// As metad's machine does it.
    fn run(&mut self, command: &Command) -> Reply {
        match command {
            Command::Namespace(request) => {
                let answer =
                    namespace::apply_with(&mut self.rows, request, &blocks::has_container).expect("memory can be read");
                if answer.is_err() {
                    self.rows.roll_back()
                } else {
                    self.rows.commit()
                }
                Reply::Namespace(answer)
            }
            Command::Blocks(command) => {
                let answer = blocks::apply_with(&mut self.rows, command, &namespace::read::is_empty)
                    .expect("memory can be read");
                self.rows.commit();
                if let Some(cluster) = &mut self.cluster {
                    cluster.on_applied(command, &answer);
                }
                Reply::Blocks(answer)
            }
        }
    }
}
