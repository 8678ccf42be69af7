//! `hdfs fsck`: the tree below a path is checked, and faults of its blocks are reported in HDFS's words.
//!
//! ```text
//! FSCK started by alice (auth:SIMPLE) from /10.0.0.1 for path / at …
//! /f 10 bytes, replicated: replication=3, 1 block(s):  OK           -files
//! 0. BP-…:blk_1048576_1001 len=10 Live_repl=3  [DatanodeInfo…]      -blocks -locations
//! Status: HEALTHY  …                                                the totals
//! The filesystem under path '/' is HEALTHY                          the last line decides the client's exit code
//! ```
//!
//! The census of all blocks (`lead::CensusRound`) counts replicas by the same rules, so both report the same numbers.
//! Nothing is read from the datanodes, and nothing is changed. The tree is read page by page, each from a new view, so
//! a long check does not delay writers. Lines are sent as they are found. Few checks run at a time; a check ends if its
//! client does not read, or gives way where that is slow to (`report`).

mod ask;
mod totals;

pub(crate) use ask::{Ask, Claim};

use crate::answer::Encoded;
use crate::core::Core;
use crate::leadership::Leadership;
use crate::repair::census::{holders, unsound};
use crate::report::{Gone, Report};
use crate::rights::Right;
use crate::session::Session;
use crate::visit::Visit;
use crate::{date, refusal};
use hdfs::Exception;
use lead::UnsoundReplicas;
use namespace::read::{self, Entry, PageLimits};
use namespace::{FileBlocks, Kind};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;
use totals::{Cluster, Totals};
use types::{BlockId, FsPath, NodeId};

/// As it is called, and as HDFS names it in its refusal.
pub(crate) const METHOD: &str = "fsck";

/// Files without a whole copy, listed at a time. HDFS: `dfs.corruptfilesreturned.max`, 500.
const CORRUPT_COUNT_MAX: usize = 500;
/// Blocks asked for by their ids.
const BLOCK_COUNT_MAX: usize = 1000;

/// Runs a check that was let in.
pub(crate) async fn check(visit: &Visit, ask: Ask) -> Result<Encoded, Exception> {
    let (leadership, core, out) = (Arc::clone(&visit.leadership), Arc::clone(visit.core()), visit.report().clone());
    let check = Check { begun: leadership.clock.monotonic(), leadership, core, out, ask };
    match check.report(visit.session()).await {
        Ok(()) | Err(Stop::Gone) => Ok(Encoded::EMPTY),
        Err(Stop::Refused(error)) => Err(error),
    }
}

pub(crate) fn end_line(leadership: &Leadership, begun: Duration) -> String {
    let took = leadership.clock.monotonic().saturating_sub(begun).as_millis();
    format!("FSCK ended at {} in {took} milliseconds\n", date::java(leadership.clock.now()))
}

/// Files of which some block has no sound replica: `blk_1`, and the path. May wait for a disk.
pub(crate) fn corrupt_files(
    core: &Core,
    below: &FsPath,
    after: usize,
    limit: usize,
) -> Result<Vec<(BlockId, String)>, Exception> {
    let known = unsound(core);
    let mut found = Vec::new();
    let mut passed = 0;
    for block in known.without_sound() {
        let file = core.rows_here(|rows| match read::file_of_block(rows, block)? {
            Some((file, view)) => Ok(read::path_of_inode(rows, file)?.map(|path| (path, view))),
            None => Ok(None),
        })?;
        let Some((path, view)) = file else { continue };
        if !is_below(&path, below) || !view.complete || !holders(core, &known, &view).is_empty() {
            continue;
        }
        passed += 1;
        if passed > after {
            found.push((block, path));
        }
        if found.len() == limit {
            break;
        }
    }
    Ok(found)
}

fn is_below(path: &str, top: &FsPath) -> bool {
    let rest = path.strip_prefix(top.as_str());
    top.is_root() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

struct Check {
    leadership: Arc<Leadership>,
    core: Arc<Core>,
    out: Report,
    ask: Ask,
    begun: Duration,
}

enum Stop {
    Gone,
    Refused(Exception),
}

impl From<Gone> for Stop {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

impl From<Exception> for Stop {
    fn from(error: Exception) -> Self {
        Self::Refused(error)
    }
}

impl Check {
    async fn send(&self, text: String) -> Result<(), Gone> {
        self.out.send(text).await
    }

    /// A server that lost the leadership has old rows.
    async fn still_leads(&self) -> Result<(), Exception> {
        match self.leadership.leading().await?.term == self.core.term {
            true => Ok(()),
            false => Err(self.leadership.standby()),
        }
    }

    async fn report(&self, session: &Session) -> Result<(), Stop> {
        let (core, ask) = (&self.core, &self.ask);
        let who = format!(
            "FSCK started by {} (auth:{}) from /{}",
            session.caller.user,
            session.proof.method().name(),
            session.host()
        );
        let at = date::java(core.now());
        if let Some(blocks) = &ask.block_ids {
            session.must_have(Right::Look, Some(METHOD))?;
            self.send(format!("{who} at {at}\n")).await?;
            for name in blocks.split_whitespace().take(BLOCK_COUNT_MAX) {
                let (core, name) = (Arc::clone(core), name.to_owned());
                let about = self.core.look(move || about_block(&core, &name)).await?;
                self.send(about).await?;
            }
            return Ok(());
        }
        self.send(format!("{who} for path {} at {at}\n", ask.path)).await?;
        if ask.changes {
            let message =
                "-move and -delete are not served: what has no replica left stays named until it is deleted by hand";
            return Err(Exception::io(message).into());
        }
        let path = FsPath::parse(&ask.path).map_err(|error| refusal::no_path("fsck", &ask.path, error))?;
        let (caller, its_path) = (session.caller.clone(), path.clone());
        let Some(status) = core.read(move |rows| read::status(rows, &caller, &its_path)).await? else {
            self.send(format!("\n\nPath '{path}' does not exist")).await?;
            return Ok(());
        };
        if let Some(after) = ask.corrupt_after {
            session.must_have(Right::Look, Some("listCorruptFileBlocks"))?;
            self.send(self.corrupt(&path, usize::try_from(after).unwrap_or(usize::MAX)).await?).await?;
            return Ok(());
        }
        let known = unsound(core);
        let mut totals = Totals::default();
        self.tree(session, &path, status.kind == Kind::Directory, &known, &mut totals).await?;
        let now = core.monotonic();
        let (live_nodes, racks) = core.with_cluster(|cluster, _| {
            let live = cluster.nodes().filter(|member| member.is_live(now));
            (live.count(), cluster.nodes().map(|member| member.node.rack.clone()).collect::<BTreeSet<_>>().len())
        });
        let cluster = Cluster { live_nodes, racks, replication: core.config.replication, pending: known.pending_count };
        let outcome = if totals.is_healthy() { "HEALTHY" } else { "CORRUPT" };
        let outcome = format!("\n\nThe filesystem under path '{path}' is {outcome}");
        self.send(format!("{}{}{outcome}", totals.report(cluster), end_line(&self.leadership, self.begun))).await?;
        Ok(())
    }

    /// Depth first, each directory in pages; what is below an entry stands behind it, as in HDFS.
    async fn tree(
        &self,
        session: &Session,
        top: &FsPath,
        is_directory: bool,
        known: &UnsoundReplicas,
        totals: &mut Totals,
    ) -> Result<(), Stop> {
        // Directories on the way: what is left of the page at hand, and the name to go on behind.
        struct Level {
            path: FsPath,
            entries: std::vec::IntoIter<Entry>,
            after: Vec<u8>,
            more: bool,
        }
        let level = |path: FsPath| Level { path, entries: Vec::new().into_iter(), after: Vec::new(), more: true };
        if is_directory {
            totals.directories += 1;
            self.send(self.directory_line(top)).await?;
        }
        let mut levels = vec![level(top.clone())];
        while let Some(at) = levels.last_mut() {
            let Some(entry) = at.entries.next() else {
                if !at.more {
                    levels.pop();
                    continue;
                }
                let (core, caller) = (Arc::clone(&self.core), session.caller.clone());
                let (path, after) = (at.path.clone(), at.after.clone());
                self.still_leads().await?;
                let page = self.core.walk_patiently(session, move || {
                    core.read_here(|rows| read::list(rows, &caller, &path, &after, PageLimits::new(true)))
                });
                let page = page.await?.unwrap_or_default();
                at.more = page.remaining > 0 && !page.entries.is_empty();
                at.after = page.entries.last().map(|entry| entry.status.name.clone()).unwrap_or_default();
                at.entries = page.entries.into_iter();
                continue;
            };
            let name = String::from_utf8_lossy(&entry.status.name).into_owned();
            let path = match name.is_empty() {
                true => at.path.clone(),
                false => at.path.join(&name).map_err(|error| Exception::io(error.to_string()))?,
            };
            match entry.blocks {
                Some(blocks) => self.send(self.file(&path, &entry.status, &blocks, known, totals)).await?,
                None => {
                    totals.directories += 1;
                    self.send(self.directory_line(&path)).await?;
                    levels.push(level(path));
                }
            }
        }
        Ok(())
    }

    fn directory_line(&self, path: &FsPath) -> String {
        if self.ask.files { format!("{path} <dir>\n") } else { String::new() }
    }

    fn file(
        &self,
        path: &FsPath,
        status: &namespace::Status,
        file: &FileBlocks,
        known: &UnsoundReplicas,
        totals: &mut Totals,
    ) -> String {
        let ask = &self.ask;
        let count = file.blocks.len() as u64;
        if file.under_construction && !ask.open_files {
            totals.open_files += 1;
            totals.open_len = totals.open_len.saturating_add(status.len);
            totals.open_blocks += count;
            return String::new();
        }
        totals.files += 1;
        totals.len = totals.len.saturating_add(status.len);
        totals.blocks += count;
        let mut out = String::new();
        let replication = status.replication;
        let head = format!("{path} {} bytes, replicated: replication={replication}, {count} block(s):", status.len);
        // Writing to a string cannot fail.
        let _ = match (file.under_construction, ask.files) {
            (true, _) => write!(out, "{head} OPENFORWRITE: "),
            (false, true) => write!(out, "{head} "),
            // A sign of life, as HDFS gives it.
            (false, false) if totals.files.is_multiple_of(100) => write!(out, "."),
            (false, false) => Ok(()),
        };
        let mut list = String::new();
        let (mut missing, mut corrupt) = ((0, 0), (0, 0));
        let mut is_short = false;
        for (number, view) in file.blocks.iter().enumerate() {
            let name = format!("{}:{}_{}", self.core.pool, view.block, view.generation.0);
            let holders = holders(&self.core, known, view);
            let (live, wanted) = (holders.len() as u64, u64::from(replication));
            totals.replicas += live;
            totals.wanted_replicas += wanted;
            totals.sound += u64::from(live > 0);
            totals.surplus += u64::from(live > wanted);
            let _ = write!(list, "{number}. {name} len={}", view.len);
            if live == 0 && known.is_damaged(view.block) {
                (corrupt.0, corrupt.1) = (corrupt.0 + 1, corrupt.1 + view.len);
                let _ = write!(out, "\n{path}: CORRUPT blockpool {} block {}\n", self.core.pool, view.block);
            } else if live == 0 && view.complete {
                (missing.0, missing.1) = (missing.0 + 1, missing.1 + view.len);
                list.push_str(" MISSING!\n");
                continue;
            } else if (1..wanted).contains(&live) {
                totals.short += 1;
                totals.missing_replicas += wanted - live;
                is_short = true;
                if !ask.files {
                    let _ = write!(out, "\n{path}: ");
                }
                let _ = writeln!(
                    out,
                    " Under replicated {name}. Target Replicas is {wanted} but found {live} live replica(s), 0 \
                     decommissioned replica(s), 0 decommissioning replica(s)."
                );
            }
            let _ = write!(list, " Live_repl={live}");
            if ask.locations || ask.racks {
                let _ = write!(list, "  [{}]", self.places(&holders));
            }
            list.push('\n');
        }
        totals.missing += missing.0;
        totals.missing_len += missing.1;
        totals.corrupt += corrupt.0;
        totals.corrupt_len += corrupt.1;
        totals.corrupt_files += u64::from(missing.0 + corrupt.0 > 0);
        for (what, (count, len)) in [("MISSING", missing), ("CORRUPT", corrupt)] {
            if count > 0 {
                let _ = match ask.files {
                    true => writeln!(out, " {what} {count} blocks of total size {len} B"),
                    false => write!(out, "\n{path}: {what} {count} blocks of total size {len} B."),
                };
            }
        }
        if ask.files {
            if missing.0 + corrupt.0 == 0 && !is_short {
                out.push_str(" OK\n");
            }
            if ask.blocks {
                out.push_str(&list);
                out.push('\n');
            }
        }
        out
    }

    fn places(&self, nodes: &[NodeId]) -> String {
        self.core.with_cluster(|cluster, _| {
            let places = nodes.iter().filter_map(|id| cluster.node(*id)).map(|member| {
                let node = &member.node;
                match self.ask.racks {
                    true => format!("{}/{}", node.rack, node.xfer_addr()),
                    false => format!("DatanodeInfoWithStorage[{},{},DISK]", node.xfer_addr(), node.storage),
                }
            });
            places.collect::<Vec<_>>().join(", ")
        })
    }

    async fn corrupt(&self, path: &FsPath, after: usize) -> Result<String, Exception> {
        let (core, below) = (Arc::clone(&self.core), path.clone());
        let found = self.core.look(move || corrupt_files(&core, &below, after, CORRUPT_COUNT_MAX)).await?;
        let count = match found.len() {
            0 if after == 0 => "no".to_string(),
            0 => "no more".to_string(),
            count => count.to_string(),
        };
        let mut out = format!("Cookie:\t{}\n", after + found.len());
        for (block, path) in found {
            let _ = writeln!(out, "{block}\t{path}");
        }
        let _ = write!(out, "\n\nThe filesystem under path '{path}' has {count} CORRUPT files\n\n");
        Ok(out)
    }
}

/// May wait for a disk.
fn about_block(core: &Core, name: &str) -> Result<String, Exception> {
    let Some(id) = name.strip_prefix("blk_") else {
        return Ok(format!("Incorrect blockId format: {name}\n"));
    };
    // A generation may stand behind the id.
    let id = id.split(['_', '.']).next().and_then(|id| id.parse().ok()).map(BlockId);
    let found = match id {
        Some(block) => core.rows_here(|rows| match read::file_of_block(rows, block)? {
            Some((file, view)) => Ok(read::path_of_inode(rows, file)?.map(|path| (path, view))),
            None => Ok(None),
        })?,
        None => None,
    };
    let Some((path, view)) = found else { return Ok(format!("\nBlock {name} does not exist\n")) };
    let known = unsound(core);
    let holders = holders(core, &known, &view);
    let text = FsPath::parse(&path).map_err(|error| Exception::io(error.to_string()))?;
    let system = namespace::Caller::system();
    let status = core.read_here(|rows| read::status(rows, &system, &text))?;
    let now = core.monotonic();
    let mut out = format!("\nBlock Id: {name}\nBlock belongs to: {path}\n");
    let counts = [
        ("Expected", status.map_or(0, |status| usize::from(status.replication))),
        ("live", holders.len()),
        ("excess", 0),
        ("stale", 0),
        ("decommissioned", 0),
        ("decommissioning", 0),
        ("corrupted", known.bad_on(view.block).count()),
    ];
    for (what, count) in counts {
        let _ = writeln!(out, "No. of {what} Replica: {count}");
    }
    let states: BTreeMap<NodeId, &str> = core.with_cluster(|cluster, _| {
        let members = cluster.members(view.home).into_iter();
        let live = members.filter(|member| member.is_live(now)).map(|member| member.node.id);
        live.map(|id| (id, if known.bad_on(view.block).any(|bad| bad == id) { "CORRUPT" } else { "HEALTHY" })).collect()
    });
    for (node, state) in states {
        let place = core.with_cluster(|cluster, _| {
            cluster.node(node).map(|member| format!("{}{}", member.node.host, member.node.rack))
        });
        let _ = writeln!(out, "Block replica on datanode/rack: {} is {state}", place.unwrap_or_default());
    }
    Ok(out)
}
