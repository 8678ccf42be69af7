//! What clients do: work on a few names together, and make files of their own that must never be lost.

use super::member::{World, is_in_doubt};
use crate::executor::{Boxed, HostId};
use crate::history::{Event, Name, Op, Outcome};
use crate::net::CallError;
use namespace::{Caller, Create, Delete, Format, NsError, Rename2, Reply, Request, RetryKey, read};
use raft::RaftError;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use types::FsPath;
use types::mutation::{self, Mutation};

/// The checker's work grows with them.
const HISTORY_COUNT_MAX: usize = 110;
const NAMES: usize = 3;
const PAUSE_MAX: Duration = Duration::from_millis(1_500);
/// One member is waited for so long, and all together.
const CALL_MAX: Duration = Duration::from_secs(5);
const FAILOVER_MAX: Duration = Duration::from_secs(20);
const FAILOVER_PAUSE: Duration = Duration::from_millis(300);

#[derive(Default)]
pub(super) struct Work {
    pub(super) history: RefCell<Vec<Event>>,
    next_tag: Cell<u16>,
    pub(super) busy: Cell<usize>,
    pub(super) done: Cell<u64>,
}

pub(super) struct Client {
    world: Rc<World>,
    number: usize,
    calls: Cell<i32>,
    /// Asked first.
    favourite: Cell<usize>,
}

fn path(text: &str) -> FsPath {
    FsPath::parse(text).expect("a sound path")
}

pub(super) fn own_path(tag: u16) -> FsPath {
    path(&format!("/own/{tag}"))
}

/// What a member says.
enum Said<T> {
    Well(T),
    Refused(NsError),
    /// It does not lead; what was proposed may still come about.
    NotLeader,
}

/// What a client knows in the end.
enum Known<T> {
    Well(T),
    Refused,
    Nothing,
}

impl Client {
    pub(super) fn new(world: &Rc<World>, number: usize) -> Self {
        Self { world: Rc::clone(world), number, calls: Cell::default(), favourite: Cell::default() }
    }

    fn host(&self) -> HostId {
        HostId(1_000 + self.number as u32)
    }

    pub(super) fn start(self, work: &Rc<Work>) {
        let (world, work) = (Rc::clone(&self.world), Rc::clone(work));
        world.net.up(self.host());
        work.busy.set(work.busy.get() + 1);
        world.sim.spawn(self.host(), async move {
            self.run(&work).await;
            work.busy.set(work.busy.get() - 1);
        });
    }

    /// Asks one member after the other until one answers that leads.
    async fn ask<T: 'static>(
        &self,
        ask: impl Fn(&Rc<World>, u64) -> Option<Boxed<Said<T>>> + Clone + 'static,
    ) -> Known<T> {
        let (world, sim) = (&self.world, &self.world.sim);
        let deadline = sim.now() + FAILOVER_MAX;
        let mut doubt = false;
        loop {
            let ids = world.ids();
            let id = ids[self.favourite.get() % ids.len()];
            let (at, ask) = (Rc::clone(world), ask.clone());
            let answer = world.net.call(self.host(), World::host(id), CALL_MAX, move || ask(&at, id)).await;
            match answer {
                Ok(Said::Well(answer)) => return Known::Well(answer),
                // What is under way from an earlier try may come about after this.
                Ok(Said::Refused(why)) => {
                    sim.say(|| format!("client {} is refused: {why}", self.number));
                    return if doubt { Known::Nothing } else { Known::Refused };
                }
                Ok(Said::NotLeader) | Err(CallError::Broken | CallError::TimedOut) => doubt = true,
                Err(CallError::Connect) => {}
            }
            if sim.now() >= deadline {
                return Known::Nothing;
            }
            self.favourite.set(self.favourite.get() + 1);
            sim.sleep(FAILOVER_PAUSE).await;
        }
    }

    async fn change(&self, op: impl Into<namespace::Op>) -> Known<Reply> {
        self.calls.set(self.calls.get() + 1);
        let mut client = [0; 16];
        client[..8].copy_from_slice(&(self.number as u64 + 1).to_be_bytes());
        let retry = Some(RetryKey { client, call: self.calls.get() });
        let op = op.into();
        self.ask(move |world, id| {
            let (world, member) = (Rc::clone(world), world.member(id)?);
            let request = Request { now: world.wall(id), caller: Caller::system(), retry, op: op.clone() };
            Some(Box::pin(async move {
                match world.propose(&member, request).await {
                    Ok(Some(Ok(reply))) => Said::Well(reply),
                    Ok(Some(Err(why))) => Said::Refused(why),
                    Ok(None) => unreachable!("a request is answered"),
                    Err(error) => {
                        assert!(is_in_doubt(&error), "{error}");
                        Said::NotLeader
                    }
                }
            }))
        })
        .await
    }

    /// The tag of a file, which stands in its mode.
    async fn look(&self, path: FsPath) -> Known<Option<u16>> {
        self.ask(move |world, id| {
            let (world, member, path) = (Rc::clone(world), world.member(id)?, path.clone());
            let asks_nobody = mutation::is(Mutation::StaleReads) && member.raft.is_leader();
            Some(Box::pin(async move {
                if !asks_nobody {
                    match world.confirm(&member).await {
                        Ok(_) => {}
                        Err(RaftError::TooLong { len }) => unreachable!("{len}"),
                        Err(_) => return Said::NotLeader,
                    }
                }
                let status = read::status(&*member.names.rows(), &Caller::system(), &path);
                match status.expect("memory can be read") {
                    Ok(status) => Said::Well(status.map(|status| status.mode)),
                    Err(why) => Said::Refused(why),
                }
            }))
        })
        .await
    }

    fn create(&self, path: FsPath, tag: u16, overwrite: bool) -> Create {
        Create {
            takeover: None,
            path,
            client: format!("client{}", self.number),
            client_host: String::new(),
            mode: tag,
            unmasked: None,
            create: true,
            overwrite,
            create_parent: true,
            replication: 1,
            block_len: 1 << 20,
            block_len_min: 1,
        }
    }

    async fn run(&self, work: &Work) {
        let (world, sim) = (&self.world, &self.world.sim);
        self.begin().await;
        while !world.over.get() {
            sim.sleep(sim.between(Duration::ZERO, PAUSE_MAX)).await;
            work.done.set(work.done.get() + 1);
            if sim.one_in(3) && self.number > 0 {
                let tag = self.next_tag(work);
                if matches!(self.change(self.create(own_path(tag), tag, false)).await, Known::Well(_)) {
                    world.promised.borrow_mut().insert(tag);
                }
            } else if work.history.borrow().len() < HISTORY_COUNT_MAX {
                self.work_on_names(work).await;
            }
        }
    }

    /// The first one makes the namespace, the others wait for it.
    async fn begin(&self) {
        let world = &self.world;
        while !world.formatted.get() && !world.over.get() {
            if self.number > 0 {
                world.sim.sleep(FAILOVER_PAUSE).await;
                continue;
            }
            let made = self.change(Format { owner: "root".into(), group: "root".into() }).await;
            // Refused, because an earlier try came about.
            world.formatted.set(!matches!(made, Known::Nothing));
        }
    }

    fn next_tag(&self, work: &Work) -> u16 {
        let tag = work.next_tag.get() + 1;
        work.next_tag.set(tag);
        tag
    }

    async fn work_on_names(&self, work: &Work) {
        let sim = &self.world.sim;
        let name = |name: Name| path(&format!("/names/{name}"));
        let any = || sim.below(NAMES) as Name;
        // One client reads alone: it does not find out that its server cannot change anything any more.
        let op = match if self.number == 0 { 2 } else { sim.below(8) } {
            0 | 1 => Op::Write(any(), self.next_tag(work)),
            2..=4 => Op::Read(any()),
            5 => Op::Delete(any()),
            _ => {
                let from = any();
                Op::Rename(from, (from + 1 + sim.below(NAMES - 1) as Name) % NAMES as Name)
            }
        };
        let began = sim.now();
        let place = work.history.borrow().len();
        let event = Event { client: self.number, op, began, ended: Duration::MAX, outcome: Outcome::Unknown };
        work.history.borrow_mut().push(event);
        let outcome = match op {
            Op::Write(at, tag) => known(self.change(self.create(name(at), tag, true)).await, |_| Outcome::Done),
            Op::Read(at) => known(self.look(name(at)).await, Outcome::Found),
            Op::Delete(at) => {
                let delete = Delete { path: name(at), recursive: true, examined: None };
                known(self.change(delete).await, |reply| Outcome::Deleted(reply == Reply::Bool(true)))
            }
            Op::Rename(from, to) => {
                let rename = Rename2 {
                    from: name(from),
                    to: name(to),
                    overwrite: false,
                    to_trash: false,
                    examined: None,
                    replaces: None,
                };
                known(self.change(rename).await, |_| Outcome::Done)
            }
        };
        sim.say(|| format!("client {} {op:?}: {outcome:?}", self.number));
        if outcome != Outcome::Unknown {
            let mut history = work.history.borrow_mut();
            (history[place].ended, history[place].outcome) = (sim.now(), outcome);
        }
    }
}

fn known<T>(known: Known<T>, outcome: impl FnOnce(T) -> Outcome) -> Outcome {
    match known {
        Known::Well(answer) => outcome(answer),
        Known::Refused => Outcome::Refused,
        Known::Nothing => Outcome::Unknown,
    }
}
