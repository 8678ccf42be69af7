//! The power is cut at every write and sync of a log's life: votes, entries, cuts, purges and new segments that were
//! acknowledged are there, and what was under way is there as far as it came, in order, or not at all.

use crate::disk::Directory;
use crate::log::Log;
use crate::meters::Meters;
use crate::record::Facts;
use crate::stop::Stop;
use crate::synced::Synced;
use crate::types::{Command, Entry, LogId, Payload, Types, Vote, log_id, vote};
use ::types::random::{Random, Seeded};
use openraft::storage::{IOFlushed, RaftLogReader, RaftLogStorage};
use openraft::type_config::TypeConfigExt;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use testkit::power::{self, Disk, Mood};

const STEPS: usize = 110;

/// What is done to the log, step by step; the same in the victim and in who judges it.
#[derive(Clone, Debug)]
enum Step {
    Vote(Vote),
    Append(Vec<Entry>),
    Cut(Option<LogId>),
    Purge(LogId),
    /// Nothing that a restart must find.
    Committed,
    Reopen,
}

/// What a log holds.
#[derive(Clone, Debug, Default, PartialEq)]
struct State {
    vote: Option<Vote>,
    purged: Option<LogId>,
    last: Option<LogId>,
    entries: Vec<Entry>,
}

impl State {
    fn purge(&mut self, upto: LogId) {
        self.purged = Some(upto);
        self.last = self.last.filter(|last| last.index >= upto.index).or(Some(upto));
        self.entries.retain(|entry| entry.log_id.index > upto.index);
    }

    fn push(&mut self, entry: Entry) {
        self.last = Some(entry.log_id);
        self.entries.push(entry);
    }

    async fn of(log: &mut Log) -> Self {
        let state = log.get_log_state().await.unwrap();
        Self {
            vote: log.read_vote().await.unwrap(),
            purged: state.last_purged_log_id,
            last: state.last_log_id,
            entries: log.try_get_log_entries(..).await.unwrap(),
        }
    }
}

/// The steps, and before each of them and at the end, at which state the log stands; the states go entry by entry.
fn story() -> (Vec<Step>, Vec<usize>, Vec<State>) {
    let (mut random, mut term) = (Seeded(3), 1);
    let (mut steps, mut places, mut states) = (Vec::new(), Vec::new(), vec![State::default()]);
    for _ in 0..STEPS {
        let mut state = states.last().cloned().unwrap_or_default();
        places.push(states.len() - 1);
        let step = match random.below(12) {
            0 | 1 => {
                term += 1;
                let vote = vote(term, 1, random.below(2) == 0);
                state.vote = Some(vote);
                states.push(state);
                Step::Vote(vote)
            }
            2 if !state.entries.is_empty() => {
                let kept = random.below(state.entries.len());
                let last = kept.checked_sub(1).map_or(state.purged, |at| Some(state.entries[at].log_id));
                state.entries.truncate(kept);
                state.last = last;
                states.push(state);
                Step::Cut(last)
            }
            // Mostly of entries that are there, now and then beyond the end: another member's state was taken over.
            3 | 4 if !state.entries.is_empty() => {
                let upto = match random.below(4) {
                    0 => log_id(term, state.last.map_or(0, |id| id.index) + 50),
                    _ => state.entries[random.below(state.entries.len())].log_id,
                };
                state.purge(upto);
                states.push(state);
                Step::Purge(upto)
            }
            5 => Step::Committed,
            6 if random.below(2) == 0 => Step::Reopen,
            _ => {
                // Some of them long, so that segments fill up.
                let len = [20, 200, 12_000][random.below(3)];
                let first = state.last.map_or(0, |id| id.index + 1);
                let entries: Vec<Entry> = (first..first + 1 + random.below(4) as u64)
                    .map(|index| {
                        let payload = Payload::Normal(Command(vec![index as u8 | 1; len].into()));
                        Entry { log_id: log_id(term, index), payload }
                    })
                    .collect();
                for entry in &entries {
                    state.push(entry.clone());
                    states.push(state.clone());
                }
                Step::Append(entries)
            }
        };
        steps.push(step);
    }
    places.push(states.len() - 1);
    (steps, places, states)
}

fn open(dir: &Path) -> std::io::Result<(Log, JoinHandle<()>)> {
    let (log, thread) =
        Log::open(Arc::new(Directory::new(&dir.join("log"))), 1, Synced::default(), Stop::new(), Meters::default())?;
    Ok((log, thread.expect("this is no simulation")))
}

fn close((log, thread): (Log, JoinHandle<()>)) {
    drop(log);
    thread.join().unwrap();
}

async fn append(log: &mut Log, entries: Vec<Entry>) {
    let (flushed, done) = Types::oneshot();
    log.append(entries, IOFlushed::signal(flushed)).await.unwrap();
    done.await.unwrap().unwrap();
}

/// Not a test by itself: does nothing unless it was started as the victim.
#[tokio::test]
async fn victim() {
    let Some(dir) = power::victim_dir() else { return };
    let mut log = open(&dir).unwrap();
    for (number, step) in story().0.into_iter().enumerate() {
        power::tell(&format!("begins {number}"));
        // Nobody waits for a purge: it is there with whatever is acknowledged next.
        let is_acknowledged = !matches!(step, Step::Purge(_) | Step::Committed);
        match step {
            Step::Vote(vote) => log.0.save_vote(&vote).await.unwrap(),
            Step::Append(entries) => append(&mut log.0, entries).await,
            Step::Cut(last) => log.0.truncate_after(last).await.unwrap(),
            Step::Purge(upto) => log.0.purge(upto).await.unwrap(),
            Step::Committed => {
                let Facts { last, .. } = log.0.facts();
                log.0.save_committed(last).await.unwrap();
            }
            Step::Reopen => {
                close(log);
                log = open(&dir).unwrap();
            }
        }
        if is_acknowledged {
            power::tell(&format!("has {number}"));
        }
    }
}

fn last(disk: &Disk, cut: usize, word: &str) -> Option<usize> {
    disk.told(cut).filter_map(|told| told.strip_prefix(word)?.trim().parse().ok()).last()
}

#[tokio::test]
async fn a_log_that_loses_power_holds_what_it_acknowledged_and_some_beginning_of_the_rest() {
    let dirs = tempfile::tempdir().unwrap();
    let disk = power::life("power::victim", &dirs.path().join("life"));
    let (_, places, states) = story();
    let cuts = (1..=disk.calls() + 1).filter(|cut| !disk.tells_at(*cut));
    let (mut count, mut more) = (0, 0);
    for (cut, mood) in cuts.flat_map(|cut| Mood::ALL.map(|mood| (cut, mood))) {
        let left = dirs.path().join(format!("left {cut} {mood:?}"));
        std::fs::create_dir(&left).unwrap();
        disk.leave(cut, mood, cut as u64, &left);
        let least = last(&disk, cut, "has").map_or(0, |step| places[step + 1]);
        let most = last(&disk, cut, "begins").map_or(0, |step| places[step + 1]);
        let what = format!("call {cut} of {}, {mood:?}, states {least}..={most}", disk.calls());
        let mut log = open(&left).unwrap_or_else(|error| panic!("{what}: {error}"));
        let found = State::of(&mut log.0).await;
        let place = (least..=most).find(|place| states[*place] == found);
        let place = place.unwrap_or_else(|| panic!("{what}: {found:?}, should be\n{:?}", states[least]));
        (count, more) = (count + 1, more + usize::from(place > least));
        // It goes on, behind a torn end too, and what it acknowledges now is kept.
        if cut % 4 == 0 {
            let index = found.last.map_or(0, |id| id.index + 1);
            let entry = Entry { log_id: log_id(99, index), payload: Payload::Blank };
            append(&mut log.0, vec![entry.clone()]).await;
            close(log);
            log = open(&left).unwrap_or_else(|error| panic!("{what}, once more: {error}"));
            let mut want = states[place].clone();
            want.push(entry);
            assert_eq!(State::of(&mut log.0).await, want, "{what}, once more");
        }
        close(log);
        std::fs::remove_dir_all(left).unwrap();
    }
    println!("{} calls, {count} cuts; {more} logs had more than was acknowledged", disk.calls());
    assert!(more > 20, "what was under way is there at times: {more}");
}
