//! `levada admin pipelines`, `containers`, `under-replicated`

use super::table;
use crate::shell::{Common, Session, Stop, size};
use client::admin::datanodes::{Compared, ContainerState, Trouble};
use serde::Serialize;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) common: Common,
}

#[derive(Debug, Serialize)]
struct PipelineLine {
    id: u64,
    epoch: u64,
    /// Members it should have; 0 if that was never recorded.
    wanted: u32,
    live: u32,
    members: Vec<String>,
    joining: Vec<String>,
    planned: bool,
    containers: u64,
    bytes: u64,
}

pub(super) async fn pipelines(session: &Session) -> Result<(), Stop> {
    let target = session.target("/")?;
    let pipelines = target.client.admin().pipelines().await.map_err(|error| target.failure(&error))?;
    let lines: Vec<PipelineLine> = pipelines
        .into_iter()
        .map(|pipeline| PipelineLine {
            id: pipeline.id,
            epoch: pipeline.epoch,
            wanted: pipeline.wanted,
            live: pipeline.live_count,
            members: pipeline.members,
            joining: pipeline.joining,
            planned: pipeline.planned,
            containers: pipeline.container_count,
            bytes: pipeline.len,
        })
        .collect();
    if session.output.is_json() {
        return lines.iter().try_for_each(|line| session.output.json(line));
    }
    let row = |line: &PipelineLine| {
        let marked = |member: &String| {
            if line.joining.contains(member) { format!("{member} (copies)") } else { member.clone() }
        };
        [
            line.id.to_string(),
            line.epoch.to_string(),
            format!("{} of {}", line.live, line.wanted.max(line.members.len() as u32)),
            line.containers.to_string(),
            size::human(line.bytes),
            if line.planned { "new blocks" } else { "kept" }.to_owned(),
            line.members.iter().map(marked).collect::<Vec<_>>().join(", "),
        ]
    };
    let head = [">PIPELINE", ">EPOCH", "UP", ">CONTAINERS", ">BYTES", "FOR", "MEMBERS"];
    table::print(session, head, &lines.iter().map(row).collect::<Vec<_>>())
}

#[derive(Debug, Serialize)]
struct ContainerLine {
    id: u64,
    pipeline: u64,
    state: &'static str,
    /// Block indexes given out.
    indexes: u32,
    bytes: u64,
    /// All members are known to have all blocks.
    whole: bool,
    /// Of a sealed one: whether its members' replicas hold the same.
    compared: Option<&'static str>,
    /// The root of the hash tree that they have in common.
    root: Option<String>,
    members: Vec<String>,
}

pub(super) async fn containers(session: &Session) -> Result<(), Stop> {
    let target = session.target("/")?;
    let admin = target.client.admin();
    let (mut after, mut more) = (0, true);
    let mut rows = Vec::new();
    while more {
        let page;
        (page, more) = admin.containers(after).await.map_err(|error| target.failure(&error))?;
        after = page.last().map_or(after, |last| last.id);
        for container in page {
            let line = ContainerLine {
                state: match container.state() {
                    ContainerState::Open => "open",
                    ContainerState::Sealing => "sealing",
                    ContainerState::Sealed => "sealed",
                },
                compared: match container.compared() {
                    Compared::Never => None,
                    Compared::Alike => Some("alike"),
                    Compared::Differ => Some("differ"),
                },
                root: Some(container.root).filter(|root| !root.is_empty()),
                id: container.id,
                pipeline: container.pipeline,
                indexes: container.leased,
                bytes: container.len,
                whole: container.whole,
                members: container.members,
            };
            if session.output.is_json() {
                session.output.json(&line)?;
                continue;
            }
            rows.push([
                line.id.to_string(),
                line.pipeline.to_string(),
                line.state.to_owned(),
                line.indexes.to_string(),
                size::human(line.bytes),
                if line.whole { "yes" } else { "copying" }.to_owned(),
                line.root.or(line.compared.map(str::to_owned)).unwrap_or_default(),
                line.members.join(", "),
            ]);
        }
    }
    if session.output.is_json() {
        return Ok(());
    }
    let head = [">CONTAINER", ">PIPELINE", "STATE", ">INDEXES", ">BYTES", "WHOLE", "HASH TREE", "MEMBERS"];
    table::print(session, head, &rows)
}

#[derive(Debug, Serialize)]
struct ShortLine {
    block: u64,
    container: u64,
    path: String,
    trouble: &'static str,
    /// Who copies it, or has a damaged replica.
    datanode: Option<String>,
    /// Copies on datanodes that are up.
    sources: u32,
    /// Copies that its file asks for.
    wanted: u32,
    bytes: u64,
}

pub(super) async fn under_replicated(session: &Session) -> Result<(), Stop> {
    let target = session.target("/")?;
    let answer = target.client.admin().under_replicated().await.map_err(|error| target.failure(&error))?;
    let lines: Vec<ShortLine> = answer
        .blocks
        .into_iter()
        .map(|block| ShortLine {
            trouble: match block.trouble() {
                Trouble::Short => "short",
                Trouble::Missing => "missing",
                Trouble::Damaged => "damaged",
                Trouble::Contradictory => "contradictory",
            },
            block: block.block,
            container: block.container,
            path: block.path,
            datanode: Some(block.datanode).filter(|datanode| !datanode.is_empty()),
            sources: block.source_count,
            wanted: block.wanted_count,
            bytes: block.len,
        })
        .collect();
    if session.output.is_json() {
        return lines.iter().try_for_each(|line| session.output.json(line));
    }
    let row = |line: &ShortLine| {
        [
            line.block.to_string(),
            line.container.to_string(),
            if line.trouble == "short" { "under-replicated" } else { line.trouble }.to_owned(),
            format!("{} of {}", line.sources, line.wanted),
            line.datanode.clone().unwrap_or_else(|| "-".to_owned()),
            size::human(line.bytes),
            line.path.clone(),
        ]
    };
    if !lines.is_empty() {
        let head = [">BLOCK", ">CONTAINER", "TROUBLE", "COPIES", "DATANODE", ">BYTES", "FILE"];
        table::print(session, head, &lines.iter().map(row).collect::<Vec<_>>())?;
    }
    session.output.line(&format!(
        "{} blocks under-replicated ({} pending), {} missing, {} corrupt; {} containers to compare",
        answer.under_replicated_count,
        answer.pending_count,
        answer.missing_count,
        answer.corrupt_count,
        answer.suspect_count
    ))?;
    if answer.room_lacking_len > 0 {
        session.output.line(&format!(
            "no datanode can take the copies: room for {} more ({} bytes) lacks on datanodes that are up and have no \
             copy of these blocks yet; add datanodes or disks, or delete files",
            size::human(answer.room_lacking_len),
            answer.room_lacking_len
        ))?;
    } else if answer.under_replicated_count > 0 && answer.pending_count == 0 && answer.suspect_count == 0 {
        session
            .output
            .line("no datanode can take the copies: one that has none of them, has room, and is up is needed")?;
    }
    Ok(())
}
