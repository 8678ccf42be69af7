//! One thread, one clock, one order: tasks that wait for virtual time, and for each other.
//!
//! Promise: what runs next is decided by (time, order of scheduling) alone, and all chance comes from one generator, so
//! a run is a function of its seed. No real clock is read, no thread is started. A task belongs to a host; when the
//! host dies its tasks are dropped where they stand, as `kill -9` would.
//!
//! Code that takes tasks, time and chance from `io` runs here too, see [`Sim::install`]. tokio's channels, which
//! need no runtime, wake those who wait for a `watch` in an order that is drawn from the machine's own chance. So what
//! one step wakes is not run in the order of the waking but, where such code runs, in one that is drawn here.

use io::simulated::{self, Installed, SimulatedTask, Simulator};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use types::Random;
use types::random::Seeded;

/// Steps of one run. Runs take some 100,000; one that takes so many goes round in a circle.
const POLLS_MAX: u64 = 10_000_000;

pub(crate) type Boxed<T> = Pin<Box<dyn Future<Output = T>>>;

/// Listens to the story.
pub(crate) type Listener = Box<dyn Fn(&str)>;

/// A machine with one process. `HostId::NOBODY` owns what is not of any machine: the network, the faults, the checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct HostId(pub u32);

impl HostId {
    pub(crate) const NOBODY: Self = Self(u32::MAX);
}

#[derive(Clone)]
pub(crate) struct Sim {
    inner: Rc<Inner>,
}

struct Inner {
    now: Cell<Duration>,
    sequence: Cell<u64>,
    timers: RefCell<BTreeMap<(Duration, u64), Waker>>,
    tasks: RefCell<BTreeMap<u64, Task>>,
    /// Whose task runs.
    running: Cell<HostId>,
    /// Machines that sleep, since when, and tasks of theirs that would run.
    asleep: RefCell<BTreeMap<HostId, (Duration, Vec<u64>)>>,
    /// How long machines slept, where their clocks stand still meanwhile; a deliberate fault.
    slept: RefCell<Option<BTreeMap<HostId, Duration>>>,
    /// When timers of [`io::simulated`] are due, by their number.
    timers_of_shipped_code: RefCell<BTreeMap<u64, Duration>>,
    ready: Arc<Ready>,
    random: RefCell<Seeded>,
    polls: Cell<u64>,
    hash: Cell<u64>,
    trace: Option<Listener>,
}

struct Task {
    owner: HostId,
    /// `None` while it runs.
    future: Option<Boxed<()>>,
    waker: Arc<TaskWaker>,
}

#[derive(Default)]
struct Ready(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    tasks: VecDeque<u64>,
    /// Woken by the last step, where their order counts for nothing.
    woken: Vec<u64>,
    mixed: bool,
}

impl Ready {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, task: u64) {
        let mut queue = self.queue();
        if queue.mixed { queue.woken.push(task) } else { queue.tasks.push_back(task) }
    }

    fn pop(&self, chance: &mut Seeded) -> Option<u64> {
        let mut queue = self.queue();
        let mut woken = std::mem::take(&mut queue.woken);
        woken.sort_unstable();
        while !woken.is_empty() {
            let next = if woken.len() == 1 { 0 } else { chance.below(woken.len()) };
            queue.tasks.push_back(woken.remove(next));
        }
        queue.tasks.pop_front()
    }
}

struct TaskWaker {
    task: u64,
    queued: AtomicBool,
    ready: Arc<Ready>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        if !self.queued.swap(true, Ordering::Relaxed) {
            self.ready.push(self.task);
        }
    }
}

impl Sim {
    pub(crate) fn new(seed: u64, trace: Option<Listener>) -> Self {
        let inner = Inner {
            now: Cell::default(),
            sequence: Cell::default(),
            timers: RefCell::default(),
            tasks: RefCell::default(),
            running: Cell::new(HostId::NOBODY),
            asleep: RefCell::default(),
            slept: RefCell::default(),
            timers_of_shipped_code: RefCell::default(),
            ready: Arc::default(),
            random: RefCell::new(Seeded(seed)),
            polls: Cell::default(),
            hash: Cell::new(0xcbf2_9ce4_8422_2325),
            trace,
        };
        Self { inner: Rc::new(inner) }
    }

    pub(crate) fn now(&self) -> Duration {
        self.inner.now.get()
    }

    fn next_number(&self) -> u64 {
        let number = self.inner.sequence.get() + 1;
        self.inner.sequence.set(number);
        number
    }

    /// Tells the story, if somebody listens.
    pub(crate) fn say(&self, line: impl FnOnce() -> String) {
        if let Some(trace) = &self.inner.trace {
            trace(&format!("{:>11.4} {}", self.now().as_secs_f64(), line()));
        }
    }

    /// Steps taken so far, and a number that is the same only for the same steps at the same times.
    pub(crate) fn fingerprint(&self) -> (u64, u64) {
        (self.inner.polls.get(), self.inner.hash.get())
    }

    pub(crate) fn note(&self, number: u64) {
        // FNV-1a over whole words: enough to tell two runs apart.
        self.inner.hash.set((self.inner.hash.get() ^ number).wrapping_mul(0x0000_0100_0000_01b3));
    }

    // ── chance ──

    pub(crate) fn below(&self, end: usize) -> usize {
        self.inner.random.borrow_mut().below(end)
    }

    pub(crate) fn one_in(&self, count: usize) -> bool {
        self.below(count) == 0
    }

    pub(crate) fn between(&self, low: Duration, high: Duration) -> Duration {
        let span = high.saturating_sub(low).as_micros() as usize;
        low + Duration::from_micros(self.below(span.max(1)) as u64)
    }

    /// A generator of its own for somebody, drawn from this one.
    pub(crate) fn split(&self) -> Seeded {
        Seeded(self.inner.random.borrow_mut().next_u64())
    }

    // ── tasks ──

    pub(crate) fn spawn(&self, owner: HostId, future: impl Future<Output = ()> + 'static) {
        self.spawn_boxed(owner, Box::pin(future));
    }

    fn spawn_boxed(&self, owner: HostId, future: Boxed<()>) -> u64 {
        let task = self.next_number();
        let waker = Arc::new(TaskWaker { task, queued: AtomicBool::new(true), ready: Arc::clone(&self.inner.ready) });
        self.inner.tasks.borrow_mut().insert(task, Task { owner, future: Some(future), waker });
        self.inner.ready.push(task);
        task
    }

    /// A machine sleeps: its tasks stand still. What is sent to it waits.
    pub(crate) fn suspend(&self, host: HostId) {
        self.inner.asleep.borrow_mut().entry(host).or_insert((self.now(), Vec::new()));
    }

    /// It is awake again, or was killed meanwhile.
    pub(crate) fn wake_up(&self, host: HostId) {
        let Some((since, tasks)) = self.inner.asleep.borrow_mut().remove(&host) else { return };
        if let Some(slept) = &mut *self.inner.slept.borrow_mut() {
            *slept.entry(host).or_default() += self.now() - since;
        }
        self.inner.ready.queue().tasks.extend(tasks);
    }

    /// The clocks of machines stand still while they sleep: a deliberate fault.
    pub(crate) fn let_clocks_sleep(&self) {
        *self.inner.slept.borrow_mut() = Some(BTreeMap::new());
    }

    /// What the clock of the machine whose task runs lacks.
    fn lag(&self) -> Duration {
        let slept = self.inner.slept.borrow();
        slept.as_ref().and_then(|slept| slept.get(&self.inner.running.get()).copied()).unwrap_or_default()
    }

    /// Drops all tasks of a host. Never called by one of them.
    pub(crate) fn kill(&self, host: HostId) {
        self.wake_up(host);
        let running = self.inner.running.replace(host);
        loop {
            let mut tasks = self.inner.tasks.borrow_mut();
            let mine: Vec<u64> = tasks.iter().filter(|(_, task)| task.owner == host).map(|(id, _)| *id).collect();
            let dropped: Vec<Task> = mine.iter().filter_map(|id| tasks.remove(id)).collect();
            drop(tasks);
            if dropped.is_empty() {
                break;
            }
            drop(dropped); // their ends of connections close now, and may begin something
        }
        self.inner.running.set(running);
    }

    /// Until what is returned is dropped, tasks of [`io::task`] that this thread starts belong to the host whose task
    /// starts them.
    pub(crate) fn install(&self) -> Installed {
        self.inner.ready.queue().mixed = true;
        simulated::install(Rc::new(OfShippedCode(self.clone())))
    }

    /// Forgets all tasks and timers, which hold the world as the world holds them.
    pub(crate) fn clear(&self) {
        let tasks = std::mem::take(&mut *self.inner.tasks.borrow_mut());
        drop(tasks);
        // What their ends have begun meanwhile.
        let rest = std::mem::take(&mut *self.inner.tasks.borrow_mut());
        drop(rest);
        self.inner.timers.borrow_mut().clear();
    }

    /// Runs until nothing is left to do before `until`.
    pub(crate) fn run_until(&self, until: Duration) {
        loop {
            while let Some(task) = self.next_ready() {
                self.poll(task);
            }
            let mut timers = self.inner.timers.borrow_mut();
            match timers.first_entry() {
                Some(entry) if entry.key().0 <= until => {
                    let ((time, _), waker) = entry.remove_entry();
                    drop(timers);
                    self.inner.now.set(time);
                    waker.wake();
                }
                _ => break,
            }
        }
        self.inner.now.set(until);
    }

    fn next_ready(&self) -> Option<u64> {
        self.inner.ready.pop(&mut self.inner.random.borrow_mut())
    }

    /// Fails a run that goes on without time.
    fn count_step(&self) {
        self.inner.polls.set(self.inner.polls.get() + 1);
        assert!(self.inner.polls.get() < POLLS_MAX, "the run goes round in a circle at {:?}", self.now());
    }

    fn poll(&self, id: u64) {
        let owner = self.inner.tasks.borrow().get(&id).map(|task| task.owner);
        if let Some(owner) = owner
            && let Some((_, tasks)) = self.inner.asleep.borrow_mut().get_mut(&owner)
        {
            return tasks.push(id);
        }
        let taken = self.inner.tasks.borrow_mut().get_mut(&id).and_then(|task| {
            task.waker.queued.store(false, Ordering::Relaxed);
            Some((task.future.take()?, Arc::clone(&task.waker), task.owner))
        });
        let Some((mut future, waker, owner)) = taken else { return };
        self.inner.running.set(owner);
        self.count_step();
        self.note(self.now().as_nanos() as u64);
        self.note(id);
        let waker = Waker::from(waker);
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(()) => {
                drop(future);
                self.inner.tasks.borrow_mut().remove(&id);
            }
            Poll::Pending => {
                let mut tasks = self.inner.tasks.borrow_mut();
                match tasks.get_mut(&id) {
                    Some(task) => task.future = Some(future),
                    None => {
                        drop(tasks);
                        drop(future);
                    }
                }
            }
        }
    }

    pub(crate) fn sleep(&self, time: Duration) -> Sleep {
        self.sleep_until(self.now() + time)
    }

    pub(crate) fn sleep_until(&self, time: Duration) -> Sleep {
        Sleep { sim: self.clone(), time, key: None }
    }

    /// `None` if `time` passes first.
    pub(crate) async fn timeout<T>(&self, time: Duration, future: impl Future<Output = T>) -> Option<T> {
        match race(future, self.sleep(time)).await {
            Either::First(value) => Some(value),
            Either::Second(()) => None,
        }
    }
}

/// This world, as shipped code sees it.
struct OfShippedCode(Sim);

impl Simulator for OfShippedCode {
    fn now(&self) -> Duration {
        self.0.now() - self.0.lag()
    }

    fn random_u64(&self) -> u64 {
        self.0.inner.random.borrow_mut().next_u64()
    }

    fn spawn(&self, task: SimulatedTask) -> u64 {
        self.0.spawn_boxed(self.0.inner.running.get(), task)
    }

    fn is_running(&self, task: u64) -> bool {
        self.0.inner.tasks.borrow().contains_key(&task)
    }

    fn abort(&self, task: u64) {
        let ended = self.0.inner.tasks.borrow_mut().remove(&task);
        drop(ended);
    }

    fn set_timer(&self, at: Duration, waker: &Waker) -> u64 {
        let (timer, at) = (self.0.next_number(), at.saturating_add(self.0.lag()));
        self.0.inner.timers.borrow_mut().insert((at, timer), waker.clone());
        self.0.inner.timers_of_shipped_code.borrow_mut().insert(timer, at);
        timer
    }

    fn cancel_timer(&self, timer: u64) {
        if let Some(at) = self.0.inner.timers_of_shipped_code.borrow_mut().remove(&timer) {
            let waker = self.0.inner.timers.borrow_mut().remove(&(at, timer));
            drop(waker);
        }
    }
}

pub(crate) struct Sleep {
    sim: Sim,
    time: Duration,
    key: Option<(Duration, u64)>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.sim.now() >= self.time {
            // Whoever finds time passed again and again never comes to wait.
            self.sim.count_step();
            return Poll::Ready(());
        }
        let key = match self.key {
            Some(key) => key,
            None => (self.time, self.sim.next_number()),
        };
        self.key = Some(key);
        self.sim.inner.timers.borrow_mut().insert(key, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.sim.inner.timers.borrow_mut().remove(&key);
        }
    }
}

pub(crate) enum Either<A, B> {
    First(A),
    Second(B),
}

/// Whichever ends first; the first one if both have. The other is dropped.
pub(crate) async fn race<A, B>(first: impl Future<Output = A>, second: impl Future<Output = B>) -> Either<A, B> {
    let (mut first, mut second) = (std::pin::pin!(first), std::pin::pin!(second));
    std::future::poll_fn(|context| {
        if let Poll::Ready(value) = first.as_mut().poll(context) {
            return Poll::Ready(Either::First(value));
        }
        second.as_mut().poll(context).map(Either::Second)
    })
    .await
}

// ── waiting for each other ──

/// A value that comes once.
pub(crate) fn oneshot<T>() -> (OnceSender<T>, OnceReceiver<T>) {
    let shared = Rc::new(Once { value: RefCell::new(None), waker: RefCell::new(None), gone: Cell::new(false) });
    (OnceSender(Rc::clone(&shared)), OnceReceiver(shared))
}

struct Once<T> {
    value: RefCell<Option<T>>,
    waker: RefCell<Option<Waker>>,
    gone: Cell<bool>,
}

pub(crate) struct OnceSender<T>(Rc<Once<T>>);
pub(crate) struct OnceReceiver<T>(Rc<Once<T>>);

impl<T> OnceSender<T> {
    pub(crate) fn send(self, value: T) {
        *self.0.value.borrow_mut() = Some(value);
    }
}

impl<T> Drop for OnceSender<T> {
    fn drop(&mut self) {
        self.0.gone.set(true);
        if let Some(waker) = self.0.waker.borrow_mut().take() {
            waker.wake();
        }
    }
}

impl<T> Future for OnceReceiver<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        if let Some(value) = self.0.value.borrow_mut().take() {
            return Poll::Ready(Some(value));
        }
        if self.0.gone.get() {
            return Poll::Ready(None);
        }
        *self.0.waker.borrow_mut() = Some(context.waker().clone());
        Poll::Pending
    }
}

/// Wakes whoever waits; a call while nobody waits is kept for the next.
#[derive(Default)]
pub(crate) struct Notify {
    told: Cell<bool>,
    waiting: RefCell<Vec<Waker>>,
}

impl Notify {
    pub(crate) fn notify(&self) {
        self.told.set(true);
        for waker in self.waiting.borrow_mut().drain(..) {
            waker.wake();
        }
    }

    pub(crate) async fn notified(&self) {
        std::future::poll_fn(|context| {
            if self.told.replace(false) {
                return Poll::Ready(());
            }
            self.waiting.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// A lock that is handed on in the order of asking.
#[derive(Clone, Default)]
pub(crate) struct Lock(Rc<LockState>);

#[derive(Default)]
struct LockState {
    held: Cell<bool>,
    next_ticket: Cell<u64>,
    waiting: RefCell<BTreeMap<u64, Waker>>,
}

pub(crate) struct Guard(Rc<LockState>);

impl Lock {
    pub(crate) async fn lock(&self) -> Guard {
        let ticket = self.0.next_ticket.get();
        self.0.next_ticket.set(ticket + 1);
        let _leaves = Leaves(&self.0, ticket);
        std::future::poll_fn(|context| {
            let mut waiting = self.0.waiting.borrow_mut();
            let first = waiting.first_key_value().is_none_or(|(first, _)| *first >= ticket);
            if first && !self.0.held.get() {
                waiting.remove(&ticket);
                self.0.held.set(true);
                return Poll::Ready(());
            }
            waiting.insert(ticket, context.waker().clone());
            Poll::Pending
        })
        .await;
        Guard(Rc::clone(&self.0))
    }
}

struct Leaves<'a>(&'a LockState, u64);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        let was_waiting = self.0.waiting.borrow_mut().remove(&self.1).is_some();
        if was_waiting && !self.0.held.get() {
            self.0.wake_first();
        }
    }
}

impl LockState {
    fn wake_first(&self) {
        if let Some((_, waker)) = self.waiting.borrow().first_key_value() {
            waker.wake_by_ref();
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.held.set(false);
        self.0.wake_first();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In which order tasks go on that wait for one `watch` of tokio's.
    fn order_of_waking(installed: bool) -> Vec<usize> {
        let sim = Sim::new(7, None);
        let _installed = installed.then(|| sim.install());
        let told = tokio::sync::watch::Sender::new(0);
        let order: Rc<RefCell<Vec<usize>>> = Rc::default();
        for number in 0..24 {
            let (mut hears, order) = (told.subscribe(), Rc::clone(&order));
            sim.spawn(HostId::NOBODY, async move {
                hears.changed().await.expect("it is told");
                order.borrow_mut().push(number);
            });
        }
        sim.run_until(Duration::from_secs(1));
        told.send_replace(1);
        sim.run_until(Duration::from_secs(2));
        order.take()
    }

    /// The same waiting in the same order: tokio wakes in another one each time. This is what kept openraft from
    /// replaying.
    #[test]
    fn what_tokio_wakes_by_chance_runs_in_an_order_of_the_seed() {
        assert_ne!(
            order_of_waking(false),
            order_of_waking(false),
            "tokio has no chance in this any more: nothing need be mixed"
        );
        let order = order_of_waking(true);
        assert_eq!(order, order_of_waking(true));
        assert_eq!(order.len(), 24);
        assert!(!order.is_sorted(), "the seed has no part in it");
    }
}
