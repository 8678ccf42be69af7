//! `levada explain PATH`: where the blocks of a file are, why there, and what is being done about them.

use crate::shell::browse::{Found, Walk};
use crate::shell::{Session, Stop, size, span};
use client::admin::datanodes::LeaveKind;
use client::explain::{ContainerState, ExplainFileResponse, ExplainedBlock, ExplainedReplica, PlaceState};
use serde::{Serialize, Serializer};
use std::collections::BTreeSet;

/// A line of `--json`: one block.
#[derive(Debug, Serialize)]
struct Line {
    path: String,
    block: u64,
    generation: u64,
    offset: u64,
    len: u64,
    complete: bool,
    /// Copies that the file asks for.
    wanted: u32,
    container: u64,
    container_state: &'static str,
    pipeline: u64,
    epoch: u64,
    racks: usize,
    replicas: Vec<Replica>,
    elsewhere: Vec<String>,
    /// In words.
    doing: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Replica {
    datanode: String,
    rack: String,
    state: &'static str,
    silent_ms: Option<u64>,
    draining: bool,
    /// Why its silence does not count: `maintenance` or `restart`; `null` if it does.
    #[serde(serialize_with = "leave_word")]
    leave: LeaveKind,
    /// Until that is over.
    leave_left_ms: Option<u64>,
    sources: Vec<String>,
}

impl Replica {
    /// As `levada admin datanode list` says of a datanode that may be away, and for how long that is still so.
    fn away(&self) -> Option<(&'static str, u64)> {
        let word = match self.leave {
            LeaveKind::None => return None,
            LeaveKind::Maintenance => "in maintenance",
            LeaveKind::Restart => "restarting",
        };
        Some((word, self.leave_left_ms?))
    }
}

fn leave_word<S: Serializer>(leave: &LeaveKind, serializer: S) -> Result<S::Ok, S::Error> {
    let word = match leave {
        LeaveKind::None => None,
        LeaveKind::Maintenance => Some("maintenance"),
        LeaveKind::Restart => Some("restart"),
    };
    word.serialize(serializer)
}

/// Files below a directory, too: one that is explained whole is a mistake seldom enough.
pub(super) async fn run(found: Found, session: &Session) -> Result<(), Stop> {
    let mut walk = Walk::over(found);
    while let Some(found) = walk.next().await {
        let Some(found) = session.settle(found.map_err(Stop::Failed))? else { continue };
        if !found.status.is_dir() {
            let explained = file(&found, session).await;
            session.settle(explained)?;
        }
    }
    Ok(())
}

/// `49 bytes, 5 copies wanted`
fn wanted(len: u64, copies: u32) -> String {
    let copies = if copies == 1 { "1 copy".to_owned() } else { format!("{copies} copies") };
    format!("{}, {copies} wanted", length(len))
}

/// With a unit, also where it is a plain number.
fn length(len: u64) -> String {
    match (len, size::human(len)) {
        (1, _) => "1 byte".to_owned(),
        (_, plain) if plain.ends_with(|last: char| last.is_ascii_digit()) => format!("{plain} bytes"),
        (_, human) => human,
    }
}

async fn file(found: &Found, session: &Session) -> Result<(), Stop> {
    let (target, mut offset) = (&found.target, 0);
    loop {
        let page = target.client.explain(&target.path, offset).await.map_err(|error| target.failure(&error))?;
        if offset == 0 && !session.output.is_json() {
            session.output.line(&format!("{}: {}", target.shown(), wanted(page.len, page.replication)))?;
        }
        offset = page.blocks.last().map_or(page.len, |last| last.offset + last.len);
        for block in &page.blocks {
            let line = line(target.shown(), &page, block);
            match session.output.is_json() {
                true => session.output.json(&line)?,
                false => line.told().iter().try_for_each(|text| session.output.line(text))?,
            }
        }
        if !page.more {
            return Ok(());
        }
    }
}

fn line(path: String, page: &ExplainFileResponse, block: &ExplainedBlock) -> Line {
    let replicas: Vec<Replica> = block.replicas.iter().map(replica).collect();
    let racks = replicas.iter().map(|replica| &replica.rack).collect::<BTreeSet<_>>().len();
    Line {
        path,
        block: block.block,
        generation: block.generation,
        offset: block.offset,
        len: block.len,
        complete: block.complete,
        wanted: page.replication,
        container: block.container,
        container_state: match block.container_state() {
            ContainerState::Open => "open",
            ContainerState::Sealing => "sealing",
            ContainerState::Sealed => "sealed",
        },
        pipeline: block.pipeline,
        epoch: block.epoch,
        racks,
        doing: doing(page, block, &replicas),
        replicas,
        elsewhere: block.elsewhere.clone(),
    }
}

fn replica(replica: &ExplainedReplica) -> Replica {
    let leave = replica.leave();
    Replica {
        datanode: replica.datanode.clone(),
        rack: replica.rack.clone(),
        state: match replica.state() {
            PlaceState::Here => "here",
            PlaceState::Down => "down",
            PlaceState::Copying => "copying",
            PlaceState::Damaged => "damaged",
        },
        silent_ms: replica.silent_ms,
        draining: replica.draining,
        leave,
        leave_left_ms: (leave != LeaveKind::None).then_some(replica.leave_left_ms),
        sources: replica.sources.clone(),
    }
}

/// What becomes of the block, in sentences.
fn doing(page: &ExplainFileResponse, block: &ExplainedBlock, replicas: &[Replica]) -> Vec<String> {
    let count = |state| replicas.iter().filter(|replica| replica.state == state).count();
    let (here, copying) = (count("here"), count("copying"));
    let mut doing = Vec::new();
    if !block.complete {
        doing.push("it is being written, or waits for the lease of its writer to end".to_owned());
    }
    if here == 0 && block.complete {
        let elsewhere = if block.elsewhere.is_empty() {
            "no datanode that is up has it: start those that are down"
        } else {
            "no datanode that should have it is up with it: it is read from where it does not belong"
        };
        doing.push(elsewhere.to_owned());
    }
    if copying > 0 {
        doing.push(format!("{copying} of its datanodes are to copy it"));
    }
    if count("damaged") > 0 {
        doing.push("a damaged replica is to be replaced by a sound copy".to_owned());
    }
    if count("down") > 0 && here > 0 {
        doing.push(
            "a datanode that does not return in time is replaced by another one: in lost_after_ms, or, if it restarts \
             or is in maintenance, when the time is over for which it may be away"
                .to_owned(),
        );
    }
    if (replicas.len() as u32) < page.replication && copying == 0 {
        let lacking = if page.room_lacking_len > 0 { "there is no room for" } else { "it waits for" };
        doing.push(format!("{lacking} more copies: {} of {} have a place", replicas.len(), page.replication));
    }
    if replicas.len() as u32 > page.replication {
        doing.push("its replication was lowered: it waits to be moved to a smaller pipeline".to_owned());
    }
    if block.waits_for_comparison {
        doing.push("its container is to be compared on all its datanodes".to_owned());
    }
    doing
}

impl Line {
    fn told(&self) -> Vec<String> {
        let Self { block, offset, len, container, container_state, pipeline, epoch, racks, .. } = self;
        let mut lines = vec![
            format!("block {block} at {offset}, {}, generation {}", length(*len), self.generation),
            format!(
                "  why there: container {container} ({container_state}) is in pipeline {pipeline}, of {} datanodes in \
                 {}",
                self.replicas.len(),
                if *racks == 1 { "one rack".to_owned() } else { format!("{racks} racks") },
            ) + &if *epoch > 1 { format!("; its members changed {} times", epoch - 1) } else { String::new() },
        ];
        for replica in &self.replicas {
            let mut line = format!("  {}  {}  {}", replica.datanode, replica.rack, replica.state);
            if let ("down", Some(silent_ms)) = (replica.state, replica.silent_ms) {
                line += &format!(" for {} s", silent_ms / 1000);
            }
            if let Some((word, left_ms)) = replica.away() {
                line += &format!(", {word} ({} left)", span::human(left_ms));
            }
            if !replica.sources.is_empty() {
                line += &format!(" from {}", replica.sources.join(" or "));
            }
            if replica.draining {
                line += ", being drained";
            }
            lines.push(line);
        }
        lines.extend(self.elsewhere.iter().map(|node| format!("  {node}  has it too, where it does not belong")));
        let is_well = self.doing.is_empty();
        lines.extend(self.doing.iter().map(|text| format!("  {text}")));
        if is_well {
            lines.push("  nothing is to be done".to_owned());
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One restarts: it is not there, and nobody has to ask since when its silence counts.
    #[test]
    fn who_is_away_is_told_with_the_time_that_is_left() {
        let line = |state: PlaceState, leave: LeaveKind| {
            let at = ExplainedReplica {
                datanode: "h:1".into(),
                rack: "/r".into(),
                state: state.into(),
                silent_ms: Some(3000),
                leave: leave.into(),
                leave_left_ms: 600_000,
                ..ExplainedReplica::default()
            };
            let (page, block) = (
                ExplainFileResponse { replication: 1, ..ExplainFileResponse::default() },
                ExplainedBlock { complete: true, replicas: vec![at], ..ExplainedBlock::default() },
            );
            line("/f".into(), &page, &block)
        };
        let told = |state: PlaceState, leave: LeaveKind| line(state, leave).told()[2].clone();
        assert_eq!(told(PlaceState::Here, LeaveKind::None), "  h:1  /r  here");
        assert_eq!(told(PlaceState::Down, LeaveKind::None), "  h:1  /r  down for 3 s");
        assert_eq!(told(PlaceState::Down, LeaveKind::Restart), "  h:1  /r  down for 3 s, restarting (10 min left)");
        let maintained = told(PlaceState::Here, LeaveKind::Maintenance);
        assert_eq!(maintained, "  h:1  /r  here, in maintenance (10 min left)");
        let json = |leave: LeaveKind| {
            let line = serde_json::to_value(line(PlaceState::Here, leave)).unwrap();
            let replica = &line["replicas"][0];
            format!("{} {}", replica["leave"], replica["leave_left_ms"])
        };
        let words = [LeaveKind::None, LeaveKind::Maintenance, LeaveKind::Restart].map(json);
        assert_eq!(words, ["null null", "\"maintenance\" 600000", "\"restart\" 600000"]);
    }

    #[test]
    fn lengths_have_units() {
        assert_eq!(wanted(49, 5), "49 bytes, 5 copies wanted");
        assert_eq!(wanted(1, 1), "1 byte, 1 copy wanted");
        assert_eq!(wanted(3 << 20, 3), format!("{}, 3 copies wanted", size::human(3 << 20)));
    }
}
