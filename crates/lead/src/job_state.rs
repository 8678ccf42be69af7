//! State of a job: running, waiting, or ended.

use blocks::JobEnd;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobState {
    Running,
    /// It cannot go on by itself, because of this.
    Waiting(String),
    Done(String),
    Stopped(String),
}

impl JobState {
    pub(crate) fn of(end: &JobEnd) -> Self {
        let note = end.note.clone();
        if end.stopped { Self::Stopped(note) } else { Self::Done(note) }
    }

    pub fn has_ended(&self) -> bool {
        matches!(self, Self::Done(_) | Self::Stopped(_))
    }
}
