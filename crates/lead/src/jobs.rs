//! Jobs, as users see them: how much is done, the rate, and the estimated time left.
//!
//! Promise: the progress that one leader shows of a job never decreases, though more work may be found. The rate is
//! that of the last minute. An ended job is remembered for a while, and the number of remembered jobs is bounded. What
//! an administrator asked for is in the rows ([`blocks::JobRow`]), so the next leader continues it under the same
//! number. Repair has no row; each leader counts it anew.

use crate::job_progress::{Drain, Running};
use crate::job_state::JobState;
use blocks::{JobEnd, JobKind, JobRow, Work, tables};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use types::rows::{Rows, RowsError};
use types::{Millis, NodeId};

/// Jobs remembered, with those that ended.
const KEPT_COUNT_MAX: usize = 200;
/// The rate is taken over so long.
const RATE_OVER: Duration = Duration::from_secs(60);
/// Between two samples for it.
const SAMPLE_EACH: Duration = Duration::from_secs(1);

/// Those of [`RATE_OVER`], and one on either side.
const SAMPLE_COUNT_MAX: usize = (RATE_OVER.as_secs() / SAMPLE_EACH.as_secs()) as usize + 2;

/// A job's state in the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    /// Nothing, ever.
    Never,
    Begun,
    Ended,
}

#[derive(Clone, Debug)]
pub struct Job {
    pub id: u64,
    pub kind: JobKind,
    /// What it is about, for programs: a node's id, or empty.
    pub subject: String,
    pub state: JobState,
    pub work: Work,
    /// Of one that was written down and has not ended.
    running: Option<Running>,
    /// By this leader's clock; before, it ran so long under others.
    started: Duration,
    ran_before: Duration,
    /// By the wall clock, of one that was written down.
    begun: Millis,
    ended: Option<Duration>,
    /// It had ended before the rows were restored from a backup: what it found may not be so any more.
    pub(crate) is_of_backup: bool,
    written: Written,
    samples: VecDeque<(Duration, u64)>,
}

impl Job {
    fn new(id: u64, kind: JobKind, subject: &str, now: Duration) -> Self {
        Self {
            id,
            kind,
            subject: subject.to_owned(),
            state: JobState::Running,
            work: Work::default(),
            running: None,
            started: now,
            ran_before: Duration::ZERO,
            begun: Millis(0),
            ended: None,
            is_of_backup: false,
            written: Written::Never,
            samples: VecDeque::new(),
        }
    }

    /// How long it runs, or ran.
    pub fn ran(&self, now: Duration) -> Duration {
        self.ran_before + self.ended.unwrap_or(now).saturating_sub(self.started)
    }

    /// Bytes a second, of late; over all of it, if it has ended.
    pub fn len_per_s(&self, now: Duration) -> u64 {
        let (over, before) = match (self.ended, self.samples.front()) {
            (None, Some((since, before))) => (now.saturating_sub(*since), *before),
            _ => (self.ran(now), 0),
        };
        let seconds = over.as_secs_f64();
        if seconds < 0.001 { 0 } else { (self.work.done_len.saturating_sub(before) as f64 / seconds) as u64 }
    }

    /// `None` if it does not move, or has ended.
    pub fn left(&self, now: Duration) -> Option<Duration> {
        let rate = self.len_per_s(now);
        let left = self.work.total_len.saturating_sub(self.work.done_len);
        let moves = self.state == JobState::Running && rate > 0;
        // What nodes report may come to more seconds than there are.
        moves.then(|| Duration::try_from_secs_f64(left as f64 / rate as f64).ok()).flatten()
    }
}

/// So much is left of it. More than before means that more was found.
pub(crate) fn with_left(mut work: Work, left_len: u64, left_count: u64) -> Work {
    work.total_len = work.total_len.max(work.done_len.saturating_add(left_len));
    work.total_count = work.total_count.max(work.done_count.saturating_add(left_count));
    (work.done_len, work.done_count) = (work.total_len - left_len, work.total_count - left_count);
    work
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
        let is_same = |job: &&Job| job.kind == kind && job.subject == subject && !job.state.has_ended();
        self.jobs.values().rev().find(is_same)
    }

    /// Loads jobs from the rows: those that an earlier leader began, and those that ended.
    pub fn load(rows: &dyn Rows, wall: Millis, now: Duration) -> Result<Self, RowsError> {
        let mut jobs = Self::default();
        // By the clock of the lost store, or of this one.
        let restored = tables::restored(rows)?.map(|restored| restored.at.max(restored.made));
        for (id, mut row) in tables::jobs(rows)? {
            let until = row.end.as_ref().map_or(wall, |end| end.at);
            let mut job = Job::new(id, row.kind, &row.subject, now);
            job.ran_before = Duration::from_millis(until.0.saturating_sub(row.started.0));
            (job.written, job.begun) = (Written::Begun, row.started);
            if let Some(end) = row.end.take() {
                (job.ended, job.work, job.written) = (Some(now), end.work, Written::Ended);
                job.state = JobState::of(&end);
                job.is_of_backup = restored.is_some_and(|restored| end.at <= restored);
            } else {
                job.running = Running::begin(&row);
            }
            jobs.insert_written(job);
        }
        Ok(jobs)
    }

    /// When the last job of this kind began that is remembered.
    pub fn last_begun(&self, kind: JobKind) -> Option<Millis> {
        self.jobs.values().filter(|job| job.kind == kind && job.written != Written::Never).map(|job| job.begun).max()
    }

    /// The id of the next job.
    pub fn next_id(&self) -> u64 {
        self.last_id + 1
    }

    /// A job was written down, under an id from [`Self::next_id`].
    pub(crate) fn begun(&mut self, id: u64, row: &JobRow, now: Duration) {
        let mut job = Job::new(id, row.kind, &row.subject, now);
        (job.written, job.running, job.begun) = (Written::Begun, Running::begin(row), row.started);
        self.insert_written(job);
    }

    fn insert_written(&mut self, job: Job) {
        // One of a kind is under way at a time: where the rows have two, the former had ended, and the leader fell
        // before that was written down.
        let is_same = |other: &Job| other.kind == job.kind && other.subject == job.subject;
        let same: Vec<(u64, Written)> =
            self.jobs.values().filter(|other| is_same(other)).map(|other| (other.id, other.written)).collect();
        for (other, written) in same {
            let end = match written {
                // What is written down takes the place of what is not.
                Written::Never => JobState::Stopped("another one was asked for".to_owned()),
                Written::Begun | Written::Ended => JobState::Done("it ended as the leader changed".to_owned()),
            };
            self.set_state(other, end, job.started);
        }
        if let Some(mut other) = self.jobs.remove(&job.id) {
            // One that is not written down took the number meanwhile.
            other.id = self.next_id();
            self.insert(other);
        }
        self.insert(job);
    }

    /// Ends that are to be written down.
    pub fn ends(&self, wall: Millis, now: Duration) -> Vec<(u64, JobEnd)> {
        let written = self.jobs.values().filter(|job| job.written == Written::Begun);
        let end = |job: &Job| {
            let (stopped, note) = match &job.state {
                JobState::Done(note) => (false, note.clone()),
                JobState::Stopped(note) => (true, note.clone()),
                JobState::Running | JobState::Waiting(_) => return None,
            };
            let ago = job.ended.map_or(0, |ended| now.saturating_sub(ended).as_millis() as u64);
            Some((job.id, JobEnd { at: Millis(wall.0.saturating_sub(ago)), stopped, note, work: job.work }))
        };
        written.filter_map(end).collect()
    }

    /// The end of a job is written down.
    pub fn end_written(&mut self, id: u64, end: &JobEnd, now: Duration) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if !job.state.has_ended() {
            (job.ended, job.work, job.state) = (Some(now), end.work, JobState::of(end));
            job.running = None;
        }
        job.written = Written::Ended;
    }

    /// Begins a job that is not written down, unless the same is under way.
    pub fn begin(&mut self, kind: JobKind, subject: &str, now: Duration) -> u64 {
        if let Some(job) = self.find(kind, subject) {
            return job.id;
        }
        let id = self.next_id();
        self.insert(Job::new(id, kind, subject, now));
        id
    }

    fn insert(&mut self, job: Job) {
        if self.jobs.len() >= KEPT_COUNT_MAX {
            // One that has not ended is never forgotten; how many there can be is bounded where they are written down.
            let ended = self.jobs.values().find(|job| job.state.has_ended() && job.written != Written::Begun);
            if let Some(ended) = ended.map(|job| job.id) {
                self.jobs.remove(&ended);
            }
        }
        self.last_id = self.last_id.max(job.id);
        self.jobs.insert(job.id, job);
    }

    /// What is left of it. More than before means that more was found.
    pub fn left(&mut self, id: u64, left_len: u64, left_count: u64, now: Duration) {
        let Some(job) = self.jobs.get(&id) else { return };
        let work = with_left(job.work, left_len, left_count);
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
        if state.has_ended() {
            (job.ended, job.running) = (Some(now), None);
        }
        job.state = state;
        true
    }

    /// Jobs for which something is under way.
    pub fn running(&self) -> Vec<u64> {
        self.jobs.values().filter(|job| job.running.is_some()).map(|job| job.id).collect()
    }

    pub(crate) fn running_mut(&mut self, id: u64) -> Option<&mut Running> {
        self.jobs.get_mut(&id)?.running.as_mut()
    }

    /// What is under way, of the kind that `of` takes; one of a kind is at a time.
    pub(crate) fn find_running<T>(&mut self, of: impl FnMut(&mut Running) -> Option<&mut T>) -> Option<&mut T> {
        self.jobs.values_mut().filter_map(|job| job.running.as_mut()).find_map(of)
    }

    pub(crate) fn drain_of(&self, node: NodeId) -> Option<(u64, Drain)> {
        self.jobs.values().find_map(|job| match &job.running {
            Some(Running::Drain(drain)) if drain.node == node => Some((job.id, *drain)),
            _ => None,
        })
    }

    pub fn get(&self, id: u64) -> Option<&Job> {
        self.jobs.get(&id)
    }

    /// What must hold of each job.
    pub fn check(&self) {
        for (id, job) in &self.jobs {
            assert_eq!(job.id, *id, "a job is listed under its number");
            assert!(*id <= self.last_id, "job {id} has a number that is given to another");
            assert_eq!(job.ended.is_some(), job.state.has_ended(), "job {id} is {:?}", job.state);
            assert!(job.written != Written::Ended || job.state.has_ended(), "the end of job {id} is written down");
            assert!(
                job.running.is_none() || job.written == Written::Begun,
                "job {id} runs, and its row does not say so"
            );
            assert!(job.running.is_none() || job.ended.is_none(), "job {id} has ended, and something of it runs");
            job.running.iter().for_each(Running::check);
            assert!(job.samples.iter().is_sorted_by_key(|(at, _)| at), "samples of job {id} are in order of time");
            assert!(job.samples.len() <= SAMPLE_COUNT_MAX, "{} samples of job {id}", job.samples.len());
        }
    }

    /// In the order in which they began.
    pub fn iter(&self) -> impl Iterator<Item = &Job> {
        self.jobs.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blocks::{BlocksError, Command, JobRow, JobTask, apply};
    use types::NodeId;
    use types::rows::MemoryRows;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_job_tells_how_fast_it_is_and_how_long_it_takes() {
        let mut jobs = Jobs::default();
        let id = jobs.begin(JobKind::Drain, "n1", SECOND);
        assert_eq!(jobs.begin(JobKind::Drain, "n1", SECOND), id, "the same is under way");
        jobs.left(id, 1000, 10, SECOND);
        jobs.check();
        jobs.left(id, 800, 8, 3 * SECOND);
        jobs.check();
        let job = jobs.get(id).unwrap();
        assert_eq!((job.work.done_len, job.work.total_len, job.work.done_count), (200, 1000, 2));
        assert_eq!((job.len_per_s(3 * SECOND), job.left(3 * SECOND)), (100, Some(8 * SECOND)));
        jobs.left(id, 1300, 8, 3 * SECOND);
        jobs.check();
        let job = jobs.get(id).unwrap();
        assert_eq!((job.work.done_len, job.work.total_len), (200, 1500), "more was found, nothing undone");
        assert!(jobs.set_state(id, JobState::Done(String::new()), 5 * SECOND));
        assert!(!jobs.set_state(id, JobState::Running, 6 * SECOND), "it has ended");
        let job = jobs.get(id).unwrap();
        assert_eq!((job.ran(99 * SECOND), job.len_per_s(99 * SECOND), job.left(99 * SECOND)), (4 * SECOND, 50, None));
        assert_ne!(jobs.begin(JobKind::Drain, "n1", 7 * SECOND), id);
    }

    /// One leader begins a drain and a scrub, and sees the scrub end; the next one knows both, by number.
    #[test]
    fn the_next_leader_knows_what_was_asked_for() {
        let mut rows = MemoryRows::default();
        let mut jobs = Jobs::default();
        let ours = jobs.begin(JobKind::Repair, "", SECOND);
        let begin = |jobs: &mut Jobs, rows: &mut MemoryRows, kind, started| {
            let id = jobs.next_id();
            let row = JobRow { kind, subject: "n".into(), started: Millis(started), task: JobTask::Known, end: None };
            apply(rows, &Command::BeginJob { id, row: row.clone() }).unwrap().unwrap();
            let again = apply(rows, &Command::BeginJob { id, row: row.clone() }).unwrap();
            assert_eq!(again, Err(BlocksError::JobTaken { id }), "two leaders, one number");
            jobs.begun(id, &row, SECOND);
            id
        };
        let drain = begin(&mut jobs, &mut rows, JobKind::Drain, 10_000);
        let scrub = begin(&mut jobs, &mut rows, JobKind::Scrub, 20_000);
        jobs.progress(scrub, Work { done_len: 400, total_len: 400, ..Work::default() }, 2 * SECOND);
        jobs.check();
        jobs.set_state(scrub, JobState::Done("no damage".into()), 3 * SECOND);
        jobs.set_state(ours, JobState::Done(String::new()), 3 * SECOND);
        let ends = jobs.ends(Millis(25_000), 4 * SECOND);
        assert_eq!(ends.len(), 1, "of what was written down: {ends:?}");
        for (id, end) in ends {
            apply(&mut rows, &Command::EndJob { id, end: end.clone() }).unwrap().unwrap();
            jobs.end_written(id, &end, 4 * SECOND);
        }
        assert_eq!(jobs.ends(Millis(25_000), 4 * SECOND), []);

        let mut next = Jobs::load(&rows, Millis(40_000), 100 * SECOND).unwrap();
        assert_eq!(next.iter().map(|job| job.id).collect::<Vec<_>>(), [drain, scrub]);
        let job = next.get(drain).unwrap();
        assert_eq!((&job.state, job.ran(105 * SECOND)), (&JobState::Running, 35 * SECOND));
        let job = next.get(scrub).unwrap();
        assert_eq!(job.state, JobState::Done("no damage".into()));
        assert_eq!((job.work.done_len, job.ran(105 * SECOND), job.len_per_s(105 * SECOND)), (400, 4 * SECOND, 100));
        assert!(next.set_state(drain, JobState::Stopped("it serves again".into()), 106 * SECOND));
        assert_eq!(next.next_id(), scrub + 1);
    }

    /// A datanode told of such work when this was written down and not noted yet.
    #[test]
    fn what_is_written_down_takes_the_place_of_the_same_that_is_not() {
        let mut jobs = Jobs::default();
        let id = jobs.next_id();
        let repair = jobs.begin(JobKind::Repair, "", SECOND);
        let unwritten = jobs.begin(JobKind::Scrub, "", SECOND);
        assert_eq!([repair, unwritten], [id, id + 1]);
        let task = JobTask::Scrub { number: 7, len_per_s: 1, nodes: Vec::new() };
        let row = JobRow { kind: JobKind::Scrub, subject: String::new(), started: Millis(1), task, end: None };
        jobs.begun(id, &row, SECOND);
        jobs.check();
        assert_eq!(jobs.find(JobKind::Scrub, "").map(|job| job.id), Some(id));
        assert!(jobs.find(JobKind::Repair, "").is_some());
        jobs.set_state(id, JobState::Done(String::new()), 2 * SECOND);
        assert!(jobs.find(JobKind::Scrub, "").is_none(), "no other one is under way");
    }

    #[test]
    fn of_jobs_that_ended_the_oldest_are_forgotten() {
        let mut rows = MemoryRows::default();
        let row = |end| JobRow {
            kind: JobKind::Scrub,
            subject: String::new(),
            started: Millis(1),
            task: JobTask::Scrub { number: 7, len_per_s: 8, nodes: vec![NodeId([1; 16])] },
            end,
        };
        let end = JobEnd { at: Millis(2), stopped: true, note: "by hand".into(), work: Work::default() };
        let drain = JobRow { kind: JobKind::Drain, subject: "n".into(), task: JobTask::Known, ..row(None) };
        apply(&mut rows, &Command::BeginJob { id: 1, row: drain }).unwrap().unwrap();
        for id in 2..250 {
            apply(&mut rows, &Command::BeginJob { id, row: row(Some(end.clone())) }).unwrap().unwrap();
        }
        let jobs = Jobs::load(&rows, Millis(3), SECOND).unwrap();
        assert_eq!(jobs.iter().count(), 101);
        assert_eq!(jobs.get(1).unwrap().state, JobState::Running, "it has not ended");
        assert!(jobs.get(2).is_none() && jobs.get(249).is_some());
    }

    #[test]
    fn old_jobs_are_forgotten_and_running_ones_are_not() {
        let mut jobs = Jobs::default();
        let first = jobs.begin(JobKind::Drain, "first", SECOND);
        for number in 0..2 * KEPT_COUNT_MAX {
            let id = jobs.begin(JobKind::Scrub, &number.to_string(), SECOND);
            jobs.set_state(id, JobState::Done(String::new()), SECOND);
        }
        jobs.check();
        assert!(jobs.get(first).is_some());
        assert_eq!(jobs.iter().count(), KEPT_COUNT_MAX);
    }
}
