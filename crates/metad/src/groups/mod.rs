//! Groups of users, by the machine's user database, which may be a remote directory server.
//!
//! ```text
//!  call ──▶ known? ──yes──▶ the answer at once; an outdated one is asked for again beside it
//!             │ no
//!             ▼
//!           one look-up a name ──queues──▶ a few threads of their own ──▶ getpwnam, getgrouplist
//! ```
//!
//! Promise: a call of a known user never waits, whatever the database does. Known users are looked up again before any
//! newcomer is. A name is looked up once at a time. Look-ups that hang hold at most [`THREAD_COUNT_MAX`] threads and
//! [`WAITING_COUNT_MAX`] names of newcomers, of which one address has an eighth, and no thread of the runtime. A failed
//! look-up is no answer: the last good one is used for a while ([`known`] says how long).

mod known;

use crate::environment::GroupLookUp;
use io::CachedThreads;
use io::time::{Moment, timeout};
use known::{Known, Standing, USER_COUNT_MAX};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

pub(crate) use known::GroupNames;

/// Linux lets a user's name have 256 bytes, the zero at its end among them (`LOGIN_NAME_MAX`). HDFS has no limit.
const NAME_LEN_MAX: usize = 255;
/// Look-ups at the same time. A directory server answers within milliseconds; this many may hang. A guess.
const THREAD_COUNT_MAX: usize = 8;
/// Look-ups of newcomers at the same time: those of users who are known go on when as many hang.
const NEWCOMER_THREAD_COUNT_MAX: usize = THREAD_COUNT_MAX - 2;
/// Names of newcomers that are looked up or wait for that. A guess: with a database that answers they are done within a
/// second.
const WAITING_COUNT_MAX: usize = 1000;
/// Of these, for calls from one address: it may invent names. A guess.
const WAITING_PER_ADDRESS_MAX: usize = WAITING_COUNT_MAX / 8;
/// A call of somebody unknown waits for so long; then it goes on without the groups, and what depends on them is
/// answered with "try again". Clients wait for a minute.
const WAIT: Duration = Duration::from_secs(10);

/// The user database did not answer, and there is no answer of before that could be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the user database did not answer; see the log of the metadata server, and try again")]
pub(crate) struct NoAnswer;

/// Whether somebody can be called so. Ask before anything is done with a name that a stranger sent.
pub(crate) fn is_name(user: &str) -> bool {
    // The colon and the end of a line separate the fields and the lines of the user database.
    (1..=NAME_LEN_MAX).contains(&user.len()) && !user.chars().any(|char| char.is_control() || char == ':')
}

pub(crate) struct Groups {
    shared: Arc<Shared>,
    threads: CachedThreads,
    wait: Duration,
}

struct Shared {
    look_up: Box<GroupLookUp>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    known: Known,
    /// Names that are looked up or wait for it.
    asked: HashMap<Arc<str>, watch::Receiver<Option<Answer>>>,
    /// Users who are known, and to be asked for again. There are no more than are known.
    refreshes: VecDeque<Question>,
    newcomers: VecDeque<Question>,
    /// Of newcomers that are looked up or wait for it, whatever was forgotten since.
    newcomer_counts: BTreeMap<IpAddr, usize>,
    newcomer_count: usize,
    thread_count: usize,
    /// Of those, which look a newcomer up.
    newcomer_thread_count: usize,
    /// Rises when all is forgotten: what was asked before is old.
    epoch: u64,
}

type Answer = Result<GroupNames, NoAnswer>;

struct Question {
    name: Arc<str>,
    at: Duration,
    began: Moment,
    epoch: u64,
    /// Who asks for a newcomer; `None`: the user is known.
    newcomer_from: Option<IpAddr>,
    answer: watch::Sender<Option<Answer>>,
}

impl State {
    fn newcomer_comes(&mut self, from: IpAddr) -> Result<(), NoAnswer> {
        let of_address = self.newcomer_counts.get(&from).copied().unwrap_or_default();
        if self.newcomer_count >= WAITING_COUNT_MAX || of_address >= WAITING_PER_ADDRESS_MAX {
            return Err(NoAnswer);
        }
        self.newcomer_counts.insert(from, of_address + 1);
        self.newcomer_count += 1;
        Ok(())
    }

    fn newcomer_goes(&mut self, from: IpAddr) {
        let of_address = self.newcomer_counts.get_mut(&from).expect("a newcomer is counted with its address");
        *of_address -= 1;
        if *of_address == 0 {
            self.newcomer_counts.remove(&from);
        }
        self.newcomer_count -= 1;
    }

    /// Who is looked up next: users who are known first.
    fn next(&mut self) -> Option<Question> {
        if let Some(refresh) = self.refreshes.pop_front() {
            return Some(refresh);
        }
        if self.newcomer_thread_count >= NEWCOMER_THREAD_COUNT_MAX {
            return None;
        }
        let newcomer = self.newcomers.pop_front()?;
        self.newcomer_thread_count += 1;
        Some(newcomer)
    }

    /// The thread that had it is free for another.
    fn on_looked_up(&mut self, question: &Question) {
        if let Some(from) = question.newcomer_from {
            self.newcomer_thread_count -= 1;
            self.newcomer_goes(from);
        }
        if question.epoch == self.epoch {
            self.asked.remove(&question.name);
        }
    }
}

impl fmt::Debug for Groups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Groups").finish_non_exhaustive()
    }
}

impl Groups {
    pub(crate) fn new(look_up: Box<GroupLookUp>) -> Self {
        let shared = Shared { look_up, state: Mutex::default() };
        Self { shared: Arc::new(shared), threads: CachedThreads::new("groups"), wait: WAIT }
    }

    /// `user` passes [`is_name`]; the call comes from the address `from`.
    pub(crate) async fn of(&self, user: &str, from: IpAddr, now: Duration) -> Answer {
        assert!(is_name(user), "callers check a name before they ask for its groups");
        let mut answer = {
            let mut state = self.shared.lock();
            match state.known.standing(user, now) {
                Standing::Fresh(groups) => return Ok(groups),
                Standing::Outdated { groups, ask } => {
                    if ask {
                        let _beside_the_call = self.ask(&mut state, user, None, now);
                    }
                    return Ok(groups);
                }
                Standing::Failing => return Err(NoAnswer),
                Standing::Unknown => self.ask(&mut state, user, Some(from.to_canonical()), now)?,
            }
        };
        let Ok(answered) = timeout(self.wait, answer.wait_for(Option::is_some)).await else {
            let wait = self.wait;
            tracing::warn!(user, ?wait, "the user database does not answer; look at the directory server");
            self.shared.lock().known.failed(user, now + wait);
            return Err(NoAnswer);
        };
        answered.ok().and_then(|answer| answer.clone()).unwrap_or(Err(NoAnswer))
    }

    /// Everybody is asked for again. What is under way counts no more.
    pub(crate) fn forget(&self) {
        let mut state = self.shared.lock();
        state.epoch += 1;
        state.known = Known::default();
        let State { asked, refreshes, newcomers, epoch, .. } = &mut *state;
        let waiting = || refreshes.iter().chain(&*newcomers).map(|question| Arc::clone(&question.name));
        let waiting: HashSet<Arc<str>> = waiting().collect();
        refreshes.iter_mut().chain(newcomers).for_each(|question| question.epoch = *epoch);
        // A look-up that hangs keeps its thread, and its name may be asked for again.
        asked.retain(|name, _| waiting.contains(name));
    }

    fn ask(
        &self,
        state: &mut State,
        user: &str,
        newcomer_from: Option<IpAddr>,
        now: Duration,
    ) -> Result<watch::Receiver<Option<Answer>>, NoAnswer> {
        if let Some(answer) = state.asked.get(user) {
            return Ok(answer.clone());
        }
        match newcomer_from {
            Some(from) => state.newcomer_comes(from)?,
            None if state.refreshes.len() >= USER_COUNT_MAX => return Err(NoAnswer),
            None => {}
        }
        let (name, (sender, answer)) = (Arc::<str>::from(user), watch::channel(None));
        let may_begin = newcomer_from.is_none() || state.newcomer_thread_count < NEWCOMER_THREAD_COUNT_MAX;
        if may_begin && state.thread_count < THREAD_COUNT_MAX {
            let shared = Arc::clone(&self.shared);
            match self.threads.run(move || shared.work()) {
                Ok(()) => state.thread_count += 1,
                // Those that there are come to it.
                Err(_) if state.thread_count > 0 => {}
                Err(error) => {
                    tracing::warn!(%error, "no thread to look users up with");
                    newcomer_from.into_iter().for_each(|from| state.newcomer_goes(from));
                    return Err(NoAnswer);
                }
            }
        }
        state.asked.insert(Arc::clone(&name), answer.clone());
        let began = Moment::now();
        let question = Question { name, at: now, began, epoch: state.epoch, newcomer_from, answer: sender };
        match newcomer_from {
            Some(_) => state.newcomers.push_back(question),
            None => state.refreshes.push_back(question),
        }
        assert!(state.thread_count <= THREAD_COUNT_MAX, "{} threads look users up", state.thread_count);
        let queued = state.refreshes.len() + state.newcomers.len();
        assert!(queued <= state.asked.len(), "a name is queued twice, or nobody waits for it");
        assert!(state.newcomer_count <= WAITING_COUNT_MAX, "{} newcomers wait", state.newcomer_count);
        Ok(answer)
    }
}

impl Shared {
    /// Looks up who waits, until nobody does.
    fn work(&self) {
        loop {
            let question = {
                let mut state = self.lock();
                let Some(question) = state.next() else {
                    assert!(state.thread_count > 0, "this thread is counted");
                    state.thread_count -= 1;
                    return;
                };
                question
            };
            // A panic would be a fault of ours: it ends this thread, and neither its place nor the name may be lost
            // with it.
            let place = Place(self, &question);
            let found = (self.look_up)(&question.name);
            std::mem::forget(place);
            self.finish(&question, found);
        }
    }

    fn finish(&self, question: &Question, found: std::io::Result<Vec<String>>) {
        let answer = found.map(GroupNames::from).map_err(|error| {
            let user = &*question.name;
            tracing::warn!(user, %error, "the user database gave an error; look at the directory server");
            NoAnswer
        });
        let mut state = self.lock();
        assert!(question.epoch <= state.epoch, "a look-up is of a later epoch than the current one");
        if question.epoch == state.epoch {
            match &answer {
                Ok(groups) => state.known.answered(&question.name, Arc::clone(groups), question.at),
                Err(NoAnswer) => state.known.failed(&question.name, question.at + question.began.elapsed()),
            }
        }
        state.on_looked_up(question);
        drop(state);
        question.answer.send_replace(Some(answer));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in here is left half changed by a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of a thread and its question, which a panic gives back.
struct Place<'a>(&'a Shared, &'a Question);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.thread_count -= 1;
        state.on_looked_up(self.1);
    }
}

#[cfg(test)]
mod tests;
