//! Totals of a tree.

use crate::core::Core;
use crate::session::Session;
use hdfs::Exception;
use namespace::read::{Summary, Totals};
use std::sync::Arc;
use types::FsPath;

/// Entries counted before the totals of a tree let others in. HDFS: `dfs.content-summary.limit`, 5000.
const SUMMARY_STEP_COUNT: usize = 5000;

/// Totals of a tree. What takes steps is the look whether an ordinary user may read each directory in it; each takes a
/// new view.
pub(super) async fn totals(core: &Arc<Core>, session: &Session, path: &FsPath) -> Result<Totals, Exception> {
    let (caller, path) = (session.caller.clone(), path.clone());
    let mut summary = core.read(move |rows| Summary::start(rows, &caller, &path)).await?;
    loop {
        let (its_core, caller) = (Arc::clone(core), session.caller.clone());
        let step = core.walk_patiently(session, move || {
            let done = its_core.read_here(|rows| summary.step(rows, &caller, SUMMARY_STEP_COUNT));
            (summary, done)
        });
        let (rest, done) = step.await;
        match done? {
            Some(totals) => return Ok(totals),
            None => summary = rest,
        }
    }
}
