//! Groups of users, by the machine's user database, which may be a remote directory server.
//!
//! ```text
//!  call ──▶ known? ──yes──▶ the answer at once; an outdated one is asked for again beside it
//!             │ no
//!             ▼
//!           one look-up a name ──queue──▶ a few threads of their own ──▶ getpwnam, getgrouplist
//! ```
//!
//! Promise: a call of a known user never waits, whatever the database does. A name is looked up once at a time.
//! Look-ups that hang hold at most [`THREAD_COUNT_MAX`] threads and [`WAITING_COUNT_MAX`] names, and no thread of the
//! runtime. A failed look-up is no answer: the last good one is used for a while ([`known`] says how long).

mod known;

use crate::environment::GroupLookUp;
use io::Crew;
use io::stage::{Moment, timeout};
use known::{Known, Standing};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

pub(crate) use known::GroupNames;

/// Linux lets a user's name have 256 bytes, the zero at its end among them (`LOGIN_NAME_MAX`). HDFS has no limit.
const NAME_LEN_MAX: usize = 255;
/// Look-ups at the same time. A directory server answers within milliseconds; this many may hang. A guess.
const THREAD_COUNT_MAX: usize = 8;
/// Names that are looked up or wait for that. A guess: with a database that answers they are done within a second.
const WAITING_COUNT_MAX: usize = 1000;
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
    threads: Crew,
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
    queue: VecDeque<Question>,
    thread_count: usize,
    /// Rises when all is forgotten: what was asked before is old.
    epoch: u64,
}

type Answer = Result<GroupNames, NoAnswer>;

struct Question {
    name: Arc<str>,
    at: Duration,
    began: Moment,
    epoch: u64,
    answer: watch::Sender<Option<Answer>>,
}

impl fmt::Debug for Groups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Groups").finish_non_exhaustive()
    }
}

impl Groups {
    pub(crate) fn new(look_up: Box<GroupLookUp>) -> Self {
        let shared = Shared { look_up, state: Mutex::default() };
        Self { shared: Arc::new(shared), threads: Crew::new("groups"), wait: WAIT }
    }

    /// `user` passes [`is_name`].
    pub(crate) async fn of(&self, user: &str, now: Duration) -> Answer {
        assert!(is_name(user), "callers check a name before they ask for its groups");
        let mut answer = {
            let mut state = self.shared.lock();
            match state.known.standing(user, now) {
                Standing::Fresh(groups) => return Ok(groups),
                Standing::Outdated { groups, ask } => {
                    if ask {
                        let _beside_the_call = self.ask(&mut state, user, now);
                    }
                    return Ok(groups);
                }
                Standing::Failing => return Err(NoAnswer),
                Standing::Unknown => self.ask(&mut state, user, now)?,
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
        let State { asked, queue, epoch, .. } = &mut *state;
        queue.iter_mut().for_each(|question| question.epoch = *epoch);
        // A look-up that hangs keeps its thread, and its name may be asked for again.
        asked.retain(|name, _| queue.iter().any(|question| question.name == *name));
    }

    fn ask(&self, state: &mut State, user: &str, now: Duration) -> Result<watch::Receiver<Option<Answer>>, NoAnswer> {
        if let Some(answer) = state.asked.get(user) {
            return Ok(answer.clone());
        }
        if state.asked.len() >= WAITING_COUNT_MAX {
            return Err(NoAnswer);
        }
        let (name, (sender, answer)) = (Arc::<str>::from(user), watch::channel(None));
        if state.thread_count < THREAD_COUNT_MAX {
            let shared = Arc::clone(&self.shared);
            match self.threads.run(move || shared.work()) {
                Ok(()) => state.thread_count += 1,
                // Those that there are come to it.
                Err(_) if state.thread_count > 0 => {}
                Err(error) => {
                    tracing::warn!(%error, "no thread to look users up with");
                    return Err(NoAnswer);
                }
            }
        }
        state.asked.insert(Arc::clone(&name), answer.clone());
        let began = Moment::now();
        state.queue.push_back(Question { name, at: now, began, epoch: state.epoch, answer: sender });
        assert!(state.thread_count <= THREAD_COUNT_MAX, "{} threads look users up", state.thread_count);
        assert!(state.queue.len() <= state.asked.len(), "a name is queued twice, or nobody waits for it");
        Ok(answer)
    }
}

impl Shared {
    /// Looks up who waits, until nobody does.
    fn work(&self) {
        loop {
            let question = {
                let mut state = self.lock();
                let Some(question) = state.queue.pop_front() else {
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
            state.asked.remove(&question.name);
        }
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
        if self.1.epoch == state.epoch {
            state.asked.remove(&self.1.name);
        }
    }
}

#[cfg(test)]
mod tests;
