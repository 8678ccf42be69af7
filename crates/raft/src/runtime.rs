//! What openraft takes tasks, time and chance from: [`::io::task`], [`::io::time`] and [`::io::random`], so that a
//! simulation can run a member.

use ::io::task;
use ::io::{
    random,
    time::{self, Moment},
};
use futures_util::FutureExt;
use openraft::Instant;
use openraft::impls::TokioRuntime;
use openraft::rt::deterministic_rng::DeterministicRng;
use openraft::rt::{AsyncRuntime, OptionalSend};
use std::fmt;
use std::future::Future;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::Duration;

/// Its channels are tokio's, which need no runtime of theirs.
#[derive(Debug)]
pub(crate) struct Runtime(TokioRuntime);

impl AsyncRuntime for Runtime {
    type JoinError = task::Ended;
    type JoinHandle<T: OptionalSend + 'static> = task::Task<T>;
    type Sleep = time::Sleep;
    type Instant = Now;
    type TimeoutError = time::Elapsed;
    type Timeout<R, T: Future<Output = R> + OptionalSend> = time::Timeout<T>;
    type ThreadLocalRng = <DeterministicRng<TokioRuntime> as AsyncRuntime>::ThreadLocalRng;
    type Mpsc = <TokioRuntime as AsyncRuntime>::Mpsc;
    type Watch = <TokioRuntime as AsyncRuntime>::Watch;
    type Oneshot = <TokioRuntime as AsyncRuntime>::Oneshot;
    type Mutex<T: OptionalSend + 'static> = <TokioRuntime as AsyncRuntime>::Mutex<T>;

    fn spawn<T>(future: T) -> Self::JoinHandle<T::Output>
    where
        T: Future + OptionalSend + 'static,
        T::Output: OptionalSend + 'static,
    {
        task::spawn("openraft", future)
    }

    fn sleep(duration: Duration) -> Self::Sleep {
        time::sleep(duration)
    }

    fn sleep_until(deadline: Now) -> Self::Sleep {
        time::sleep_until(deadline.0)
    }

    fn timeout<R, F: Future<Output = R> + OptionalSend>(duration: Duration, future: F) -> Self::Timeout<R, F> {
        time::timeout(duration, future)
    }

    fn timeout_at<R, F: Future<Output = R> + OptionalSend>(deadline: Now, future: F) -> Self::Timeout<R, F> {
        time::timeout_at(deadline.0, future)
    }

    fn is_panic(join_error: &Self::JoinError) -> bool {
        join_error.panicked
    }

    /// Asked for at each election, and at the start.
    fn thread_rng() -> Self::ThreadLocalRng {
        // openraft gives its seeded generator to those alone who are in such a scope.
        let made = DeterministicRng::<TokioRuntime>::scope(random::random_u64(), async {
            <DeterministicRng<TokioRuntime> as AsyncRuntime>::thread_rng()
        });
        made.now_or_never().expect("it waits for nothing")
    }

    fn new(threads: usize) -> Self {
        Self(<TokioRuntime as AsyncRuntime>::new(threads))
    }

    fn block_on<F, T>(&mut self, future: F) -> T
    where
        F: Future<Output = T>,
    {
        self.0.block_on(future)
    }
}

/// A [`Moment`], as openraft wants it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Now(pub(crate) Moment);

impl fmt::Debug for Now {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl Instant for Now {
    fn now() -> Self {
        Self(Moment::now())
    }
}

impl Add<Duration> for Now {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        Self(self.0 + time)
    }
}

impl AddAssign<Duration> for Now {
    fn add_assign(&mut self, time: Duration) {
        self.0 += time;
    }
}

impl Sub<Duration> for Now {
    type Output = Self;

    fn sub(self, time: Duration) -> Self {
        Self(self.0 - time)
    }
}

impl SubAssign<Duration> for Now {
    fn sub_assign(&mut self, time: Duration) {
        self.0 -= time;
    }
}

impl Sub for Now {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.0 - earlier.0
    }
}
