//! `levada ls`

use crate::shell::browse::{Found, Walk};
use crate::shell::{Common, LongHelp, Session, Stop, mode, size, time};
use client::{Kind, Status};
use serde::Serialize;

#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// What to list; patterns in quotes [default: your home directory]
    paths: Vec<String>,
    /// Directories below, too
    #[arg(short = 'R', long)]
    recursive: bool,
    /// A directory itself, not what it holds
    #[arg(short, long)]
    directory: bool,
    /// Sizes as 1.5 G
    #[arg(short = 'h', long)]
    human: bool,
    /// Youngest first
    #[arg(short = 't', long, conflicts_with = "size")]
    time: bool,
    /// Largest first
    #[arg(short = 'S', long)]
    size: bool,
    /// The other way round: last, oldest or smallest first
    #[arg(short = 'r', long)]
    reverse: bool,
    /// Paths alone
    #[arg(short = 'C', long)]
    names: bool,
    /// Accepted for those used to it: all is always shown
    #[arg(short = 'l', long, conflicts_with = "names")]
    long: bool,
    #[command(flatten)]
    _help: LongHelp,
    #[command(flatten)]
    pub(super) common: Common,
}

impl Args {
    /// A directory is listed in another order than that of its names: it is read whole before.
    fn is_sorted(&self) -> bool {
        self.time || self.size || self.reverse
    }
}

/// A line of `--json`, and of `stat --json`.
#[derive(Debug, Serialize)]
pub(super) struct Entry<'a> {
    path: String,
    /// `file`, `directory` or `symlink`
    r#type: &'static str,
    len: u64,
    /// Octal
    mode: String,
    owner: &'a str,
    group: &'a str,
    /// Milliseconds since 1970, as all times
    modified: u64,
    accessed: u64,
    replication: u16,
    block_len: u64,
    id: u64,
}

impl<'a> Entry<'a> {
    pub(super) fn new(found: &'a Found) -> Self {
        let Status { len, ref owner, ref group, modified, accessed, replication, block_len, id, .. } = found.status;
        Self {
            path: found.target.shown(),
            r#type: match found.status.kind {
                Kind::File => "file",
                Kind::Directory => "directory",
                Kind::Symlink => "symlink",
            },
            len,
            mode: format!("{:04o}", found.status.mode),
            owner,
            group,
            modified: modified.0,
            accessed: accessed.0,
            replication,
            block_len,
            id,
        }
    }
}

pub(super) async fn run(args: Args, session: &Session) -> Result<(), Stop> {
    let paths = if args.paths.is_empty() { vec![".".to_owned()] } else { args.paths.clone() };
    let (mut files, mut directories) = (Vec::new(), Vec::new());
    for path in &paths {
        for found in session.found(path).await? {
            let list = if found.status.is_dir() && !args.directory { &mut directories } else { &mut files };
            list.push(found);
        }
    }
    print(&args, session, files)?;
    for directory in directories {
        if args.recursive && !args.is_sorted() {
            walk(&args, session, directory).await?;
        } else {
            tree(&args, session, directory).await?;
        }
    }
    Ok(())
}

/// A tree in the order of its names: needs no more memory than a page a level.
async fn walk(args: &Args, session: &Session, start: Found) -> Result<(), Stop> {
    let top = start.target.path.clone();
    let mut walk = Walk::over(start);
    let mut page = Vec::new();
    while let Some(found) = walk.next().await {
        if let Some(found) = session.settle(found.map_err(Stop::from))?.filter(|found| found.target.path != top) {
            page.push(found);
        }
        if page.len() >= PAGE_COUNT {
            print(args, session, std::mem::take(&mut page))?;
        }
    }
    print(args, session, page)
}

/// Lines set in columns together.
const PAGE_COUNT: usize = 1000;

/// A directory, sorted if that was asked; then those below it.
async fn tree(args: &Args, session: &Session, start: Found) -> Result<(), Stop> {
    let mut waiting = vec![start];
    while let Some(Found { target, .. }) = waiting.pop() {
        let failure = |error| Stop::Failed(target.failure(&error));
        let Some(mut listing) = session.settle(target.client.list(&target.path).await.map_err(failure))? else {
            continue;
        };
        let mut entries: Vec<Found> = Vec::new();
        while let Some(next) = session.settle(listing.next().await.map_err(failure))? {
            let Some(status) = next else { break };
            entries.push(Found { target: target.child(&status.name), status });
            if !args.is_sorted() && !args.recursive && entries.len() >= PAGE_COUNT {
                print(args, session, std::mem::take(&mut entries))?;
            }
        }
        match () {
            () if args.time => entries.sort_by_key(|found| std::cmp::Reverse(found.status.modified)),
            () if args.size => entries.sort_by_key(|found| std::cmp::Reverse(found.status.len)),
            () => {}
        }
        if args.reverse {
            entries.reverse();
        }
        if args.recursive {
            waiting.extend(entries.iter().rev().filter(|found| found.status.is_dir()).cloned());
        }
        print(args, session, entries)?;
    }
    Ok(())
}

fn print(args: &Args, session: &Session, page: Vec<Found>) -> Result<(), Stop> {
    if session.output.is_json() {
        return page.iter().try_for_each(|found| session.output.json(&Entry::new(found)));
    }
    if args.names {
        return page.iter().try_for_each(|found| session.output.line(&found.target.shown()));
    }
    let rows: Vec<[String; 7]> = page.iter().map(|found| row(args, found)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let (replicas, owners, groups, sizes) = (width(1), width(2), width(3), width(4));
    for [mode, replication, owner, group, size, time, path] in &rows {
        session.output.line(&format!(
            "{mode} {replication:>replicas$} {owner:<owners$} {group:<groups$} {size:>sizes$} {time} {path}"
        ))?;
    }
    Ok(())
}

fn row(args: &Args, found: &Found) -> [String; 7] {
    let status = &found.status;
    [
        mode::letters(status.is_dir(), status.mode),
        if status.is_dir() { "-".into() } else { status.replication.to_string() },
        status.owner.clone(),
        status.group.clone(),
        if args.human { size::human(status.len) } else { status.len.to_string() },
        time::minute(status.modified),
        found.target.shown(),
    ]
}
