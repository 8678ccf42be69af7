//! Work that takes a while, for people: how much is done, how fast, how long it will take yet.
//!
//! Promise: what is told of a job never runs backwards, though more work may be found; the rate is that of the last minute; a job that
//! ended is remembered for a while, and there is a bound on how many are.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Jobs remembered, with those that ended.
const KEPT_COUNT_MAX: usize = 200;
/// The rate is taken over so long.
const RATE_OVER: Duration = Duration::from_secs(60);
/// Between two samples for it.
const SAMPLE_EACH: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JobKind {
    Repair,
    Drain,
    Balance,
    Scrub,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobState {
    Running,
    /// It cannot go on by itself, because of this.
    Waiting(String),
    Done(String),
    Stopped(String),
}

impl JobState {
    pub fn has_ended(&self) -> bool {
        matches!(self, Self::Done(_) | Self::Stopped(_))
    }
}

/// How much of it is done, in bytes and in pieces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    pub done_len: u64,
    pub total_len: u64,
    pub done_count: u64,
    pub total_count: u64,
    /// Damaged replicas met, and how many of them were replaced.
    pub found_count: u64,
    pub mended_count: u64,
}

#[derive(Clone, Debug)]
pub struct Job {
    pub id: u64,
    pub kind: JobKind,
    /// What it is about, for programs: a node's id, or empty.
    pub subject: String,
    pub state: JobState,
    pub work: Work,
    started: Duration,
    ended: Option<Duration>,
    samples: VecDeque<(Duration, u64)>,
}

impl Job {
    /// How long it runs, or ran.
    pub fn ran(&self, now: Duration) -> Duration {
        self.ended.unwrap_or(now).saturating_sub(self.started)
    }

    /// Bytes a second, of late; over all of it, if it has ended.
    pub fn len_per_s(&self, now: Duration) -> u64 {
        let (since, before) = match (self.ended, self.samples.front()) {
            (None, Some(first)) => *first,
            _ => (self.started, 0),
        };
        let seconds = self.ended.unwrap_or(now).saturating_sub(since).as_secs_f64();
        if seconds < 0.001 { 0 } else { (self.work.done_len.saturating_sub(before) as f64 / seconds) as u64 }
    }

    /// `None` if it does not move, or has ended.
    pub fn left(&self, now: Duration) -> Option<Duration> {
        let rate = self.len_per_s(now);
        let left = self.work.total_len.saturating_sub(self.work.done_len);
        (self.state == JobState::Running && rate > 0).then(|| Duration::from_secs_f64(left as f64 / rate as f64))
    }
}

/// The jobs of one leader.
#[derive(Debug, Default)]
pub struct Jobs {
    jobs: BTreeMap<u64, Job>,
    last_id: u64,
}

impl Jobs {
    /// The job of this kind about `subject` that has not ended, if there is one.
    pub fn find(&self, kind: JobKind, subject: &str) -> Option<&Job> {
        let found = self.jobs.values().rev().find(|job| job.kind == kind && job.subject == subject);
        found.filter(|job| !job.state.has_ended())
    }

    /// Begins a job, unless the same is under way.
    pub fn begin(&mut self, kind: JobKind, subject: &str, now: Duration) -> u64 {
        if let Some(job) = self.find(kind, subject) {
            return job.id;
        }
        if self.jobs.len() >= KEPT_COUNT_MAX {
            let ended = self.jobs.values().find(|job| job.state.has_ended()).map(|job| job.id);
            let out = ended.or_else(|| self.jobs.keys().next().copied());
            out.map(|id| self.jobs.remove(&id));
        }
        self.last_id += 1;
        let job = Job {
            id: self.last_id,
            kind,
            subject: subject.to_owned(),
            state: JobState::Running,
            work: Work::default(),
            started: now,
            ended: None,
            samples: VecDeque::new(),
        };
        self.jobs.insert(job.id, job);
        self.last_id
    }

    /// What is left of it. More than before means that more was found.
    pub fn left(&mut self, id: u64, left_len: u64, left_count: u64, now: Duration) {
        let Some(job) = self.jobs.get(&id) else { return };
        let mut work = job.work;
        work.total_len = work.total_len.max(work.done_len + left_len);
        work.total_count = work.total_count.max(work.done_count + left_count);
        (work.done_len, work.done_count) = (work.total_len - left_len, work.total_count - left_count);
        self.progress(id, work, now);
    }

    pub fn progress(&mut self, id: u64, work: Work, now: Duration) {
        let Some(job) = self.jobs.get_mut(&id).filter(|job| !job.state.has_ended()) else { return };
        job.work = work;
        if job.samples.back().is_none_or(|(at, _)| now.saturating_sub(*at) >= SAMPLE_EACH) {
            job.samples.push_back((now, work.done_len));
        }
        while job.samples.len() > 2 && job.samples.front().is_some_and(|(at, _)| now.saturating_sub(*at) > RATE_OVER) {
            job.samples.pop_front();
        }
    }

    /// True: that is news.
    pub fn set_state(&mut self, id: u64, state: JobState, now: Duration) -> bool {
        let Some(job) = self.jobs.get_mut(&id).filter(|job| !job.state.has_ended() && job.state != state) else {
            return false;
        };
        job.ended = state.has_ended().then_some(now);
        job.state = state;
        true
    }

    pub fn get(&self, id: u64) -> Option<&Job> {
        self.jobs.get(&id)
    }

    /// In the order in which they began.
    pub fn iter(&self) -> impl Iterator<Item = &Job> {
        self.jobs.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_job_tells_how_fast_it_is_and_how_long_it_takes() {
        let mut jobs = Jobs::default();
        let id = jobs.begin(JobKind::Drain, "n1", SECOND);
        assert_eq!(jobs.begin(JobKind::Drain, "n1", SECOND), id, "the same is under way");
        jobs.left(id, 1000, 10, SECOND);
        jobs.left(id, 800, 8, 3 * SECOND);
        let job = jobs.get(id).unwrap();
        assert_eq!((job.work.done_len, job.work.total_len, job.work.done_count), (200, 1000, 2));
        assert_eq!((job.len_per_s(3 * SECOND), job.left(3 * SECOND)), (100, Some(8 * SECOND)));
        jobs.left(id, 1300, 8, 3 * SECOND);
        let job = jobs.get(id).unwrap();
        assert_eq!((job.work.done_len, job.work.total_len), (200, 1500), "more was found, nothing undone");
        assert!(jobs.set_state(id, JobState::Done(String::new()), 5 * SECOND));
        assert!(!jobs.set_state(id, JobState::Running, 6 * SECOND), "it has ended");
        let job = jobs.get(id).unwrap();
        assert_eq!((job.ran(99 * SECOND), job.len_per_s(99 * SECOND), job.left(99 * SECOND)), (4 * SECOND, 50, None));
        assert_ne!(jobs.begin(JobKind::Drain, "n1", 7 * SECOND), id);
    }

    #[test]
    fn old_jobs_are_forgotten_and_running_ones_are_not() {
        let mut jobs = Jobs::default();
        let first = jobs.begin(JobKind::Drain, "first", SECOND);
        for number in 0..2 * KEPT_COUNT_MAX {
            let id = jobs.begin(JobKind::Scrub, &number.to_string(), SECOND);
            jobs.set_state(id, JobState::Done(String::new()), SECOND);
        }
        assert!(jobs.get(first).is_some());
        assert_eq!(jobs.iter().count(), KEPT_COUNT_MAX);
    }
}
