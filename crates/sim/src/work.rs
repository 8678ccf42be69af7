//! What the clients of a run do: some write, read, append, rename and delete files; some work on a few names together.

use crate::client::{BLOCK_LEN, Client, Error, Shape, Writer};
use crate::executor::{HostId, Sim};
use crate::history::{Event, Name, Op, Outcome};
use crate::metad::{Refused, Wish};
use crate::tokens::intrude_always;
use crate::users;
use crate::visitor::visit_always;
use crate::world::World;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use types::{FileId, FsPath};

/// Operations of one run that are checked for an order: the checker's work grows with them.
const HISTORY_COUNT_MAX: usize = 110;
const NAMES: usize = 3;
/// Until a writer that was refused in safe mode goes on.
const SAFE_MODE_PAUSE: Duration = Duration::from_secs(1);
/// How long a cut is waited for.
const CUT_MAX: Duration = Duration::from_secs(100);

/// What the clients share.
#[derive(Default)]
pub(crate) struct Work {
    /// Names in use, with the one who made them.
    paths: RefCell<Vec<FsPath>>,
    next: Cell<u64>,
    pub(crate) stopping: Cell<bool>,
    pub(crate) history: RefCell<Vec<Event>>,
    next_tag: Cell<u16>,
    /// Clients at work.
    pub(crate) busy: Cell<usize>,
    pub(crate) done: Cell<u64>,
}

/// A client that the run waits for.
struct Busy(Rc<Work>);

impl Busy {
    fn begin(work: &Rc<Work>) -> Self {
        work.busy.set(work.busy.get() + 1);
        Self(Rc::clone(work))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.set(self.0.busy.get() - 1);
    }
}

fn path(text: &str) -> FsPath {
    FsPath::parse(text).expect("a sound path")
}

fn client_on_host(world: &Rc<World>, number: usize, life: u64) -> (HostId, Rc<Client>) {
    let host = World::client_host(number);
    world.net.up(host);
    (host, Client::new(Rc::clone(world), number, life))
}

/// Starts a client's process: number below `namer_count` works on names.
pub(crate) fn start(world: &Rc<World>, work: &Rc<Work>, number: usize, life: u64) {
    let (host, client) = client_on_host(world, number, life);
    world.sim.spawn(host, Rc::clone(&client).renew_always());
    let busy = Busy::begin(work);
    let work = Rc::clone(work);
    let names = number < world.plan.namer_count;
    client.loses_answers.set(names);
    world.sim.spawn(host, async move {
        let _busy = busy;
        if names { work_on_names(&client, &work, number).await } else { work_on_files(&client, &work).await }
    });
}

/// Starts the visitor, in runs that have one; after the clients.
pub(crate) fn start_visitor(world: &Rc<World>, work: &Rc<Work>, life: u64) {
    if !world.plan.is_visited {
        return;
    }
    let number = world.plan.client_count;
    let (host, client) = client_on_host(world, number, life);
    let busy = Busy::begin(work);
    let work = Rc::clone(work);
    world.sim.spawn(host, async move {
        let _busy = busy;
        visit_always(client, work).await;
    });
}

/// Starts the users, in runs that have them.
pub(crate) fn start_users(world: &Rc<World>, work: &Rc<Work>, seed: u64, life: u64) {
    if !world.plan.has_users {
        return;
    }
    let number = world.plan.client_count + 2;
    let (host, client) = client_on_host(world, number, life);
    let busy = Busy::begin(work);
    let work = Rc::clone(work);
    world.sim.spawn(host, async move {
        let _busy = busy;
        users::work_always(client, work, seed).await;
    });
}

/// Somebody without rights, who tries tokens.
pub(crate) fn start_intruder(world: &Rc<World>, work: &Rc<Work>, life: u64) {
    if !world.plan.has_tokens {
        return;
    }
    let number = world.plan.client_count + 3;
    let (host, client) = client_on_host(world, number, life);
    let work = Rc::clone(work);
    world.sim.spawn(host, async move { intrude_always(client, work).await });
}

/// A file that this process made.
struct Own {
    path: FsPath,
    file: FileId,
    closed: bool,
}

async fn work_on_files(client: &Rc<Client>, work: &Rc<Work>) {
    let sim = client.sim.clone();
    let mut own: Vec<Own> = Vec::new();
    while !work.stopping.get() {
        sim.sleep(sim.between(Duration::ZERO, Duration::from_millis(1500))).await;
        work.done.set(work.done.get() + 1);
        match sim.below(20) {
            18 => intrude(client, work).await,
            0..=4 => write_file(client, work, &mut own).await,
            5..=8 => read_any(client, work).await,
            9 => append(client, &own).await,
            10 => rename_or_delete(client, work, &mut own).await,
            11..=13 => put_small(client, work, &mut own).await,
            14 => set_replication(client, &own).await,
            15 | 16 => truncate(client, &own).await,
            _ => {
                let any = any_path(client, work);
                if let Some(any) = any.filter(|_| sim.one_in(3)) {
                    let _closed = client.call(move |metad, _| Box::pin(metad.recover_lease(any.clone()))).await;
                }
            }
        }
    }
}

pub(crate) fn any_path(client: &Client, work: &Work) -> Option<FsPath> {
    let paths = work.paths.borrow();
    if paths.is_empty() { None } else { Some(paths[client.sim.below(paths.len())].clone()) }
}

async fn write_file(client: &Rc<Client>, work: &Rc<Work>, own: &mut Vec<Own>) {
    let sim = &client.sim;
    let number = work.next.get() + 1;
    work.next.set(number);
    let at = path(&format!("/files/{number}"));
    let shape = [Shape::Chain, Shape::Chain, Shape::Tree, Shape::Star, Shape::FanOut][sim.below(5)];
    let looks_ahead = sim.one_in(2);
    let created = client.create(&at, number, any_replication(sim), shape, looks_ahead).await;
    let Ok(mut writer) = created else { return };
    work.paths.borrow_mut().push(at.clone());
    own.push(Own { path: at.clone(), file: writer.file, closed: false });
    let last = own.len() - 1;
    let (pieces, crash_of) = if shape == Shape::FanOut { (3 + sim.below(8), 3) } else { (sim.below(6), 25) };
    own[last].closed = write_pieces(sim, &mut writer, pieces, crash_of).await && finish(client, writer).await;
    if !own[last].closed && shape == Shape::FanOut && sim.one_in(2) {
        // Whoever takes the log over has it closed, and reads what was acknowledged.
        let _closed = client.call(move |metad, _| Box::pin(metad.recover_lease(at.clone()))).await;
    }
}

/// Mostly the usual one.
fn any_replication(sim: &Sim) -> u16 {
    [3, 3, 3, 3, 2, 1][sim.below(6)]
}

async fn put_small(client: &Rc<Client>, work: &Rc<Work>, own: &mut Vec<Own>) {
    let sim = &client.sim;
    // Leases get old between one burst and the next.
    for _ in 0..1 + sim.below(3) {
        let number = work.next.get() + 1;
        work.next.set(number);
        let at = path(&format!("/small/{number}"));
        let (len, replication, synced) = (1 + sim.below(90), any_replication(sim), sim.one_in(4));
        let put = client.put_small(&at, number, len, replication, synced).await;
        sim.say(|| format!("{} puts {at}: {put:?}", client.name));
        let Ok(file) = put else { return };
        work.paths.borrow_mut().push(at.clone());
        own.push(Own { path: at, file, closed: true });
    }
}

fn any_closed<'a>(client: &Client, own: &'a [Own]) -> Option<&'a Own> {
    let closed: Vec<&Own> = own.iter().filter(|own| own.closed).collect();
    if closed.is_empty() { None } else { Some(closed[client.sim.below(closed.len())]) }
}

async fn set_replication(client: &Rc<Client>, own: &[Own]) {
    let Some(Own { path: at, .. }) = any_closed(client, own) else { return };
    let (at, replication) = (at.clone(), 1 + client.sim.below(3) as u16);
    client.sim.say(|| format!("{} wants {replication} copies of {at}", client.name));
    let _again = client.call(move |metad, key| Box::pin(metad.set_replication(key, at.clone(), replication))).await;
}

async fn truncate(client: &Rc<Client>, own: &[Own]) {
    let (sim, world) = (&client.sim, &client.world);
    let Some(Own { path: at, file, .. }) = any_closed(client, own) else { return };
    let before = client.call({
        let at = at.clone();
        move |metad, _| Box::pin(metad.status(at.clone()))
    });
    let Ok(Some(status)) = before.await else { return };
    // Often where a block begins.
    let len = match sim.below(status.len as usize + 1) {
        len if sim.one_in(4) => len - len % BLOCK_LEN,
        len => len,
    };
    sim.say(|| format!("{} cuts {at} of {} bytes to {len}", client.name, status.len));
    world.note_recoveries(); // a further one takes the place of the last
    world.oracle.borrow_mut().cut(*file, len);
    let (who, of_call) = (client.name.clone(), at.clone());
    let cut = client.call(move |metad, key| Box::pin(metad.truncate(key, who.clone(), of_call.clone(), len as u64)));
    let mut done = match cut.await {
        Ok(done) => done,
        Err(error) => return sim.say(|| format!("{} does not cut {at}: {error:?}", client.name)),
    };
    let until = sim.now() + CUT_MAX;
    while !done && sim.now() < until {
        sim.sleep(Duration::from_millis(500)).await;
        let of_call = at.clone();
        done = client.call(move |metad, _| Box::pin(metad.is_closed(of_call.clone()))).await.unwrap_or(false);
    }
    if done {
        world.oracle.borrow_mut().closed(*file, len);
    }
}

/// False if the writer failed, or was left lying, one in `crash_of`.
async fn write_pieces(sim: &Sim, writer: &mut Writer, pieces: usize, crash_of: usize) -> bool {
    for _ in 0..pieces {
        let len = 1 + if sim.one_in(3) { sim.below(2 * BLOCK_LEN) } else { sim.below(90) };
        let gives_up = sim.one_in(4) && writer.stays_in_block(len);
        let written = patiently(sim, gives_up, writer.write(len)).await;
        if !goes_on(sim, writer, written).await {
            return false;
        }
        let flush = sim.below(6);
        let gives_up = sim.one_in(4);
        if flush < 2 {
            let flushed = patiently(sim, gives_up, writer.flush(flush == 0)).await;
            if !goes_on(sim, writer, flushed).await {
                return false;
            }
        }
        if sim.one_in(3) {
            sim.sleep(sim.between(Duration::ZERO, Duration::from_secs(2))).await;
        }
    }
    !sim.one_in(crash_of)
}

/// A writer that is refused because of safe mode still has its file, and goes on later.
async fn goes_on(sim: &Sim, writer: &Writer, outcome: Option<Result<(), Error>>) -> bool {
    match outcome {
        Some(Err(error)) if error.is_safe_mode() && writer.stays_in_block(0) => {
            sim.sleep(SAFE_MODE_PAUSE).await;
            true
        }
        Some(Err(_)) => false,
        Some(Ok(())) | None => true,
    }
}

/// `None`: the program gave the call up, as with a deadline around it, and goes on with its writer.
async fn patiently<T>(sim: &Sim, gives_up: bool, call: impl Future<Output = T>) -> Option<T> {
    if !gives_up {
        return Some(call.await);
    }
    let deadline = [1, 10, 100, 1000, 5000][sim.below(5)];
    sim.timeout(Duration::from_millis(deadline), call).await
}

async fn finish(client: &Client, writer: Writer) -> bool {
    let file = writer.file;
    let outcome = writer.close().await;
    client.sim.say(|| format!("{} closes {file}: {outcome:?}", client.name));
    outcome.is_ok()
}

/// Changes a file that somebody else may be writing, without a lease of it. Nothing of that may be done.
async fn intrude(client: &Rc<Client>, work: &Work) {
    let Some(at) = any_path(client, work) else { return };
    let of_call = at.clone();
    let found = client.call(move |metad, _| Box::pin(metad.located(of_call.clone()))).await;
    let Ok((file, located)) = found else { return };
    let Some(last) = located.last().map(|last| last.view).filter(|view| !view.complete) else { return };
    let (name, of_call) = (format!("intruder of {}", client.name), at.clone());
    let by = name.clone();
    let flushed = client.call(move |metad, _| Box::pin(metad.fsync(by.clone(), of_call.clone(), file))).await;
    let by = name.clone();
    let bumped = client.call(move |metad, _| Box::pin(metad.bump(by.clone(), last.block))).await;
    client.sim.say(|| format!("{name} of {at}: {flushed:?}, {bumped:?}"));
    if flushed.is_ok() || bumped.is_ok() {
        client.world.fail(|| format!("{name} changes {at}, which another client writes"));
    }
}

async fn read_any(client: &Rc<Client>, work: &Work) {
    if let Some(any) = any_path(client, work) {
        let outcome = client.read(&any).await;
        client.sim.say(|| format!("{} reads {any}: {outcome:?}", client.name));
    }
}

async fn append(client: &Rc<Client>, own: &[Own]) {
    let sim = &client.sim;
    let Some(at) = any_closed(client, own).map(|own| own.path.clone()) else { return };
    if let Ok(Some(mut writer)) = client.append(&at).await
        && write_pieces(sim, &mut writer, sim.below(6), 25).await
    {
        finish(client, writer).await;
    }
}

async fn rename_or_delete(client: &Rc<Client>, work: &Rc<Work>, own: &mut Vec<Own>) {
    let sim = &client.sim;
    if own.is_empty() {
        return;
    }
    let place = sim.below(own.len());
    let from = own[place].path.clone();
    if sim.one_in(2) {
        client.world.oracle.borrow_mut().doom(own[place].file);
        own.remove(place);
        work.paths.borrow_mut().retain(|path| *path != from);
        let _gone = client.call(move |metad, key| Box::pin(metad.delete(key, from.clone()))).await;
        return;
    }
    let number = work.next.get() + 1;
    work.next.set(number);
    let to = path(&format!("/moved/{number}"));
    let (made, target) = (path("/moved"), to.clone());
    if client.call(move |metad, _| Box::pin(metad.mkdirs(made.clone()))).await.is_err() {
        return;
    }
    let renamed = client.call(move |metad, key| Box::pin(metad.rename(key, from.clone(), target.clone(), false))).await;
    if renamed.is_ok() {
        let mut paths = work.paths.borrow_mut();
        paths.retain(|path| *path != own[place].path);
        paths.push(to.clone());
        own[place].path = to;
    } else {
        own.remove(place); // nobody knows under which name it stands
    }
}

async fn work_on_names(client: &Rc<Client>, work: &Rc<Work>, number: usize) {
    let sim = client.sim.clone();
    let name = |name: Name| path(&format!("/names/{name}"));
    while !work.stopping.get() && work.history.borrow().len() < HISTORY_COUNT_MAX {
        sim.sleep(sim.between(Duration::ZERO, Duration::from_millis(2500))).await;
        let any = || sim.below(NAMES) as Name;
        // One client reads alone: it does not find out that its server cannot change anything any more.
        let op = match if number == 0 { 2 } else { sim.below(8) } {
            0 | 1 => {
                let tag = work.next_tag.get() + 1;
                work.next_tag.set(tag);
                Op::Write(any(), tag)
            }
            2..=4 => Op::Read(any()),
            5 => Op::Delete(any()),
            _ => {
                let from = any();
                Op::Rename(from, (from + 1 + sim.below(NAMES - 1) as Name) % NAMES as Name)
            }
        };
        let event = Event { client: number, op, began: sim.now(), ended: Duration::MAX, outcome: Outcome::Unknown };
        // Noted before it is done: if this process dies, nobody knows whether it was.
        let place = work.history.borrow().len();
        work.history.borrow_mut().push(event);
        let outcome = match op {
            Op::Write(at, tag) => {
                let (who, at) = (client.name.clone(), name(at));
                let wish = Wish { overwrite: true, mode: tag, replication: 3, block_len: BLOCK_LEN as u64 };
                let done = client.call(move |metad, key| Box::pin(metad.create(key, who.clone(), at.clone(), wish)));
                known(done.await.map(|_| Outcome::Done))
            }
            Op::Read(at) => {
                let at = name(at);
                let found = client.call(move |metad, _| Box::pin(metad.status(at.clone())));
                known(found.await.map(|status| Outcome::Found(status.map(|status| status.mode))))
            }
            Op::Delete(at) => {
                let at = name(at);
                let deleted = client.call(move |metad, key| Box::pin(metad.delete(key, at.clone())));
                known(deleted.await.map(Outcome::Deleted))
            }
            Op::Rename(from, to) => {
                let (from, to) = (name(from), name(to));
                let done = client.call(move |metad, key| Box::pin(metad.rename(key, from.clone(), to.clone(), false)));
                known(done.await.map(|()| Outcome::Done))
            }
        };
        sim.say(|| format!("{} {op:?}: {outcome:?}", client.name));
        if outcome != Outcome::Unknown {
            let mut history = work.history.borrow_mut();
            (history[place].ended, history[place].outcome) = (sim.now(), outcome);
        }
        work.done.set(work.done.get() + 1);
    }
}

fn known(outcome: Result<Outcome, Error>) -> Outcome {
    match outcome {
        Ok(outcome) => outcome,
        Err(error) if error.is_safe_mode() => Outcome::Frozen,
        Err(Error::Refused(Refused::Namespace | Refused::NotFound)) => Outcome::Refused,
        Err(_) => Outcome::Unknown,
    }
}
