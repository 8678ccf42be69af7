//! `hdfs dfsadmin -metasave NAME`: a report of nodes and of blocks in trouble, written to this server's own disk.
//!
//! The file is `reports/NAME` in the server's directory. HDFS puts it into its directory of logs, which does not exist
//! here; its tool prints "log directory" in any case.

use crate::admin::placement;
use crate::core::Core;
use crate::session::Session;
use hdfs::Exception;
use hdfs::proto::*;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use wire::admin::placement::{ShortBlock, Trouble, UnderReplicatedRequest, UnderReplicatedResponse};

/// Longest name; that of any file system.
const NAME_LEN_MAX: usize = 255;

pub(super) async fn meta_save(
    core: &Arc<Core>,
    _session: &Session,
    request: MetaSaveRequestProto,
) -> Result<MetaSaveResponseProto, Exception> {
    let name = request.filename;
    // A user who may change all files of the store need not write elsewhere on this machine.
    let is_plain =
        !name.is_empty() && name.len() <= NAME_LEN_MAX && !name.starts_with('.') && !name.contains(['/', '\0']);
    if !is_plain {
        return Err(Exception::io(format!(
            "{name}: give a plain file name; the file is made in the metadata server's directory"
        )));
    }
    let found = placement::under_replicated(core, UnderReplicatedRequest {}).await?;
    let text = report(core, &found);
    let dir = core.config.dir.join("reports");
    let written = io::task::blocking(move || write(&dir, &name, &text)).await;
    written.map_err(|error| Exception::io(format!("the report cannot be written: {error}")))?;
    Ok(MetaSaveResponseProto {})
}

/// Over what is there, as in HDFS.
fn write(dir: &Path, name: &str, text: &str) -> std::io::Result<()> {
    std::fs::create_dir_all(dir)?;
    std::fs::write(dir.join(name), text)
}

/// In HDFS's lines, as far as they apply.
fn report(core: &Core, found: &UnderReplicatedResponse) -> String {
    let mut text = String::new();
    let now = core.monotonic();
    let nodes = core.with_cluster(|cluster, _| {
        let lines = cluster.nodes().map(|member| {
            let (usage, state) = (&member.usage, if member.is_live(now) { "IN" } else { "DEAD" });
            let used = usage.used_len as f64 / usage.capacity_len.max(1) as f64 * 100.0;
            let line =
                format!("{} {state} {} ({used:.2}%) {} free", member.node.xfer_addr(), usage.used_len, usage.free_len);
            (member.is_live(now), line)
        });
        lines.collect::<Vec<_>>()
    });
    let live_count = nodes.iter().filter(|(is_live, _)| *is_live).count();
    let of = |trouble: Trouble| found.blocks.iter().filter(move |block| block.trouble() == trouble);
    let mut say = |line: String| {
        let _a_string_takes_all = writeln!(text, "{line}");
    };
    say(format!("Live Datanodes: {live_count}"));
    say(format!("Dead Datanodes: {}", nodes.len() - live_count));
    say(format!("Metasave: Blocks waiting for reconstruction: {}", found.under_replicated_count));
    of(Trouble::Short).for_each(|block| say(line(block)));
    say(format!("Metasave: Blocks currently missing: {}", found.missing_count));
    of(Trouble::Missing).for_each(|block| say(line(block)));
    say("Mis-replicated blocks that have been postponed:".into());
    say(format!("Metasave: Blocks being reconstructed: {}", found.pending_count));
    let (doomed_count, debtor_count) = {
        let doomed = &core.leader().doomed;
        (doomed.len(), doomed.pending_nodes().count())
    };
    say(format!("Metasave: Blocks {doomed_count} waiting deletion from {debtor_count} datanodes."));
    say(format!("Corrupt Blocks: {}", found.corrupt_count));
    of(Trouble::Damaged).for_each(|block| say(line(block)));
    say(format!("Metasave: Number of datanodes: {}", nodes.len()));
    nodes.into_iter().for_each(|(_, line)| say(line));
    text
}

fn line(block: &ShortBlock) -> String {
    let path = if block.path.is_empty() { "[orphaned]" } else { &block.path };
    let node = if block.datanode.is_empty() { "all" } else { &block.datanode };
    format!(
        "{path}: blk_{} (replicas: live: {} wanted by: {node}) {} bytes",
        block.block, block.source_count, block.len
    )
}
