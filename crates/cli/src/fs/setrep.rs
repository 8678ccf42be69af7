//! `levada setrep`

use crate::shell::browse::Found;
use crate::shell::transfer::every;
use crate::shell::{Common, Failure, Session, Stop};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Copies of each block
    #[arg(value_parser = clap::value_parser!(u16).range(1..=512))]
    replication: u16,
    /// Files, and directories with all files below; patterns in quotes
    #[arg(required = true)]
    paths: Vec<String>,
    /// Accepted for those used to it: directories are always changed whole
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Wait until the copies are there
    #[arg(short, long)]
    wait: bool,
    #[command(flatten)]
    pub(super) common: Common,
}

/// How often the copies are counted.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Looks between two lines that say how far it is.
const LOOKS_A_LINE: u32 = 5;

pub(super) async fn run(args: Args, session: &Arc<Session>) -> Result<(), Stop> {
    let replication = args.replication;
    every(session, &args.paths, true, move |found| set(found, replication)).await?;
    // The copies are made side by side: nothing is waited for before all have been asked for.
    if args.wait {
        let waiting = Arc::new(Waiting { replication, ..Waiting::default() });
        let told = Arc::clone(&waiting);
        let teller = (!session.output.is_json()).then(|| {
            io::task::spawn_owned("setrep", async move {
                loop {
                    tokio::time::sleep(LOOK_EVERY * LOOKS_A_LINE).await;
                    told.print();
                }
            })
        });
        every(session, &args.paths, true, move |found| copied(found, Arc::clone(&waiting))).await?;
        drop(teller);
    }
    Ok(())
}

async fn set(found: Found, replication: u16) -> Result<(), Failure> {
    if found.status.is_dir() {
        return Ok(());
    }
    match found.target.client.set_replication(&found.target.path, replication).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(Failure::new(&found.target, "is not a file any more")),
        Err(error) => Err(found.target.failure(&error)),
    }
}

/// What is waited for, in blocks of the files looked at so far.
#[derive(Debug, Default)]
struct Waiting {
    replication: u16,
    count: AtomicU64,
    done: AtomicU64,
    told: AtomicU64,
    /// It was said that there are too few datanodes.
    warned: AtomicBool,
}

impl Waiting {
    /// For people: only if something is waited for, and something has changed.
    fn print(&self) {
        let (count, done) = (self.count.load(Ordering::Relaxed), self.done.load(Ordering::Relaxed));
        let news = count.wrapping_mul(31).wrapping_add(done);
        if done < count && self.told.swap(news, Ordering::Relaxed) != news {
            eprintln!("levada: waiting: {done} of {count} blocks have {} copies", self.replication);
        }
    }

    /// HDFS waits without a word, for ever.
    async fn warn_if_few(&self, found: &Found) {
        let wanted = usize::from(self.replication);
        if self.warned.load(Ordering::Relaxed) {
            return;
        }
        let Ok(up) = found.target.client.live_datanode_count().await else { return };
        if up < wanted && !self.warned.swap(true, Ordering::Relaxed) {
            eprintln!(
                "levada: only {up} datanodes are up, {wanted} copies need as many: waiting until there are more. \
                 Ctrl-C ends the waiting; the copies are made in any case once they can be"
            );
        }
    }
}

/// Returns when every block has its copies.
async fn copied(found: Found, waiting: Arc<Waiting>) -> Result<(), Failure> {
    if found.status.is_dir() {
        return Ok(());
    }
    let (mut count, mut done) = (0, 0);
    loop {
        let blocks = found.target.client.locations(&found.target.path).await;
        let blocks = blocks.map_err(|error| found.target.failure(&error))?;
        let have = blocks.iter().filter(|block| block.addrs.len() == usize::from(waiting.replication)).count() as u64;
        // A file that is written to meanwhile may have more of them, or fewer.
        waiting.count.fetch_add((blocks.len() as u64).wrapping_sub(count), Ordering::Relaxed);
        waiting.done.fetch_add(have.wrapping_sub(done), Ordering::Relaxed);
        (count, done) = (blocks.len() as u64, have);
        if done == count {
            return Ok(());
        }
        waiting.warn_if_few(&found).await;
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
