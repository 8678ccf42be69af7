//! `levada admin meta found`: blocks that a restored backup did not know. Nobody says of which part of a file they
//! were: so each is saved as a file of its own, beside those of the same file.

use super::table;
use crate::shell::{Failure, Session, Stop, Target, size};
use client::admin::backup::{FoundBlock, FoundPage, FoundReplica};
use client::{Create, ErrorKind, Kind};
use serde::Serialize;
use types::BlockId;

/// Bytes that are read and written at a time.
const STEP_LEN: usize = 1 << 20;
/// What was saved may be of anybody's private file, and whose is not known: only who saves it may read it.
const DIRECTORY_MODE: u16 = 0o700;
const FILE_MODE: u16 = 0o600;

/// A line of `found --json`.
#[derive(Debug, Serialize)]
struct FoundLine {
    block: u64,
    container: u64,
    file: Option<u64>,
    len: u64,
    generation: u64,
    /// False: its writer had not finished it. It is when it is saved.
    finalized: bool,
    replicas: Vec<String>,
}

impl From<FoundBlock> for FoundLine {
    fn from(found: FoundBlock) -> Self {
        let (generation, finalized, len) = found.best().map(FoundReplica::rank).unwrap_or_default();
        Self {
            block: found.block,
            container: BlockId(found.block).born_in().0,
            file: found.file,
            len,
            generation,
            finalized,
            replicas: found.replicas.into_iter().map(|replica| replica.datanode).collect(),
        }
    }
}

pub(super) async fn list(session: &Session) -> Result<(), Stop> {
    let target = session.target("/")?;
    let (mut after, mut lines, mut count) = (0, Vec::new(), 0);
    loop {
        let page = target.client.admin().found_blocks(after).await.map_err(|error| target.failure(&error))?;
        after = page.blocks.last().map_or(after, |last| last.block);
        count += page.blocks.len();
        if !page.more {
            report_lacks(&page, &target, session);
        }
        let found = page.blocks.into_iter().map(FoundLine::from);
        if session.output.is_json() {
            found.into_iter().try_for_each(|line| session.output.json(&line))?;
        } else {
            lines.extend(found.map(|line| {
                let file = line.file.map_or("-".to_owned(), |file| file.to_string());
                [line.block.to_string(), file, size::human(line.len), line.replicas.join(", ")]
            }));
        }
        if !page.more {
            break;
        }
    }
    if session.output.is_json() {
        return Ok(());
    }
    table::print(session, [">BLOCK", ">FILE", ">BYTES", "DATANODES"], &lines)?;
    if count == 0 {
        return Ok(());
    }
    session.output.line(&format!("when they are saved, `levada admin meta found release --count {count}` deletes them"))
}

/// What was not listed can neither be saved nor may it be released.
fn report_lacks(last: &FoundPage, target: &Target, session: &Session) {
    if last.passed_over > 0 {
        let text = format!("{} more replicas were found, for which the list has no room", last.passed_over);
        session.report(&Failure::new(target, text));
    }
    if last.unreported_count > 0 {
        let more = match last.unreported_count.saturating_sub(last.unreported.len() as u64) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let text = format!("datanodes without a complete report: {}{more}", last.unreported.join(", "));
        let advice = "each reports within minutes of its start, and may have more found blocks";
        session.report(&Failure::new(target, text).advise(advice));
    }
}

/// Blocks whose file is there already, as this was begun before, are passed over.
pub(super) async fn save(dir: &str, force: bool, session: &Session) -> Result<(), Stop> {
    let target = session.target(dir)?;
    let (mut after, mut count) = (0, 0);
    loop {
        let page = target.client.admin().found_blocks(after).await.map_err(|error| target.failure(&error))?;
        for found in &page.blocks {
            let saved = match finished(&target, found, force).await {
                Ok(found) => save_one(dir, &page, &found, session).await,
                // Of each other one the same would be said.
                Err(error) if error.kind() == ErrorKind::Denied => {
                    let advice = "found blocks are saved by superusers alone, as nobody knows whose they were";
                    return Err(target.failure(&error).advise(advice).into());
                }
                Err(error) => Err(target.failure(&error)),
            };
            session.settle(saved.map_err(Stop::from))?;
        }
        count += page.blocks.len() as u64;
        match page.blocks.last() {
            Some(last) if page.more => after = last.block,
            _ => {
                report_lacks(&page, &target, session);
                if page.count > count {
                    let text =
                        format!("{} blocks are listed by now, and {count} were when they were saved", page.count);
                    session.report(&Failure::new(&target, text).advise("save once more"));
                }
                return Ok(());
            }
        }
    }
}

async fn save_one(dir: &str, page: &FoundPage, found: &FoundBlock, session: &Session) -> Result<(), Failure> {
    let file = found.file.map_or("unknown".to_owned(), |file| file.to_string());
    let dir = session.target(&format!("{}/{file}", dir.trim_end_matches('/')))?;
    let to = dir.child(&found.block.to_string());
    let failed = |error| to.failure(&error);
    // Where it was there before, as of an earlier time, too.
    dir.client.mkdirs(&dir.path, DIRECTORY_MODE, true).await.map_err(|error| dir.failure(&error))?;
    narrow(&dir, DIRECTORY_MODE).await?;
    let len = found.best().map_or(0, |best| best.len);
    match to.client.status(&to.path).await.map_err(failed)? {
        // Anybody who may write there can have left it.
        Some(other) if other.kind != Kind::File || other.len != len => {
            let failure = Failure::new(&to, format!("is there already, and is not the {len} bytes of the block"));
            return Err(failure.advise("remove it, or save into another directory"));
        }
        Some(_) => return narrow(&to, FILE_MODE).await,
        None => {}
    }
    // What was not read to its end has no name that looks like it was.
    let temp = dir.child(&format!("{}._COPYING_", found.block));
    let mut reader = to.client.open_found(&page.pool, found).await.map_err(failed)?;
    let how = Create { mode: FILE_MODE, ..Create::default() };
    let mut writer = match to.client.create(&temp.path, &how).await {
        Err(error) if error.kind() == ErrorKind::Exists => {
            to.client.delete(&temp.path, false).await.map_err(failed)?;
            to.client.create(&temp.path, &how).await.map_err(failed)?
        }
        created => created.map_err(failed)?,
    };
    let mut buffer = vec![0; STEP_LEN];
    loop {
        let len = reader.read(&mut buffer).await.map_err(failed)?;
        if len == 0 {
            break;
        }
        writer.write(&buffer[..len]).await.map_err(failed)?;
    }
    writer.close().await.map_err(failed)?;
    to.client.rename(&temp.path, &to.path, false).await.map_err(failed)?;
    session.output.line(&to.shown()).map_err(|_| Failure::new(&to, "was saved, and nobody reads that"))
}

/// The block, with one length where its writer had not finished it. Why it has no token, the server says.
async fn finished(target: &Target, found: &FoundBlock, force: bool) -> client::Result<FoundBlock> {
    if found.token.is_some() && found.best().is_none_or(|best| best.finalized) {
        return Ok(found.clone());
    }
    target.client.admin().recover_found(found.block, force).await
}

/// Takes away what `mode` does not grant.
async fn narrow(target: &Target, mode: u16) -> Result<(), Failure> {
    let failed = |error| target.failure(&error);
    let status = target.client.existing(&target.path).await.map_err(failed)?;
    if status.mode & !mode == 0 {
        return Ok(());
    }
    target.client.set_permission(&target.path, status.mode & mode).await.map_err(failed)
}

pub(super) async fn release(count: u64, force: bool, session: &Session) -> Result<(), Stop> {
    let target = session.target("/")?;
    target.client.admin().release_found(count, force).await.map_err(|error| target.failure(&error).into())
}
