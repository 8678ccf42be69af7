//! A running store, as its metadata servers know it.

use super::finding::Finding;
use crate::shell::{Session, Stop, Target, size, span};
use client::admin::datanodes::{Datanode, LeaveKind};
use client::admin::examine::ExamineResponse;
use client::{Client, FsStats};
use io::{Clock, SystemClock};
use std::collections::BTreeMap;

/// Kerberos refuses five minutes; certificates and leases are happier with less.
const CLOCK_APART_MAX_MS: u64 = 60_000;
/// A store that is fuller has little left to mend itself with.
const FULL_PERCENT_MAX: u64 = 85;
/// It will be full so soon that disks should be ordered.
const FULL_SOON_DAYS: u64 = 30;
const DAY_MS: u64 = 24 * 3600 * 1000;

pub(super) async fn examine(session: &Session) -> Result<Vec<Finding>, Stop> {
    let target = session.target("/")?;
    let client = &target.client;
    let mut findings = Vec::new();
    let before = SystemClock::new().now().0;
    let examined = match client.admin().examine().await {
        Ok(examined) => examined,
        Err(error) => {
            let advice = "see that a metadata server runs and leads there, and that this user administers the store";
            findings.push(Finding::fault("store", format!("{target}: {error}"), advice));
            return Ok(findings);
        }
    };
    clocks(before, SystemClock::new().now().0, &examined, &mut findings);
    group(client, &mut findings).await;
    let failed = |error| Stop::from(Target::failure(&target, &error));
    let datanodes = client.admin().datanodes().await.map_err(failed)?;
    clocks_of(&datanodes, &mut findings);
    nodes(&datanodes, &mut findings);
    versions(&examined, &mut findings);
    let stats = client.stats().await.map_err(failed)?;
    space(&stats, &examined, &mut findings);
    blocks(&stats, &examined, &mut findings);
    if client.admin().safe_mode().await.map_err(failed)? {
        let advice = "`levada admin safemode leave`, when whoever entered it is done";
        findings.push(Finding::advice("safe mode", "it is on: nothing of the namespace changes", advice));
    }
    Ok(findings)
}

/// The server's clock was read between two readings of ours.
fn clocks(before: u64, after: u64, examined: &ExamineResponse, findings: &mut Vec<Finding>) {
    let apart = before.saturating_sub(examined.now_ms).max(examined.now_ms.saturating_sub(after));
    let found = format!("this machine's and that of the server that leads are {apart} ms apart");
    findings.push(match apart > CLOCK_APART_MAX_MS {
        true => Finding::fault("clocks", found, "set both by NTP: tokens, certificates and leases go by them"),
        false => Finding::well("clocks", found),
    });
}

/// Of datanodes, beside that of the server that leads.
fn clocks_of(datanodes: &[Datanode], findings: &mut Vec<Finding>) {
    let known = datanodes.iter().filter_map(|node| Some((node, node.clock_ahead_ms.filter(|_| node.live)?)));
    let known: Vec<_> = known.collect();
    let is_wrong = |ahead: i64| ahead.unsigned_abs() > CLOCK_APART_MAX_MS;
    for (node, ahead) in known.iter().filter(|(_, ahead)| is_wrong(*ahead)) {
        let side = if *ahead > 0 { "ahead of" } else { "behind" };
        let found = format!("{} is {} ms {side} the server that leads", node.addr, ahead.unsigned_abs());
        findings.push(Finding::fault("clocks", found, "set it by NTP: tokens, certificates and restarts go by it"));
    }
    if let Some(most) =
        known.iter().map(|(_, ahead)| ahead.unsigned_abs()).max().filter(|most| *most <= CLOCK_APART_MAX_MS)
    {
        let found =
            format!("those of {} datanodes and of the server that leads are {most} ms apart at most", known.len());
        findings.push(Finding::well("clocks", found));
    }
}

async fn group(client: &Client, findings: &mut Vec<Finding>) {
    let group = match client.admin().members().await {
        Ok(group) => group,
        Err(error) => {
            findings.push(Finding::fault("group", error.to_string(), "see `levada admin meta list`"));
            return;
        }
    };
    for member in group.members.iter().filter(|member| !member.up) {
        let advice = "start it; if its disk is lost, `levada admin meta remove` it and add another one";
        findings.push(Finding::fault(
            "group",
            format!("metadata server {} at {} is down", member.id, member.addr),
            advice,
        ));
    }
    if !group.led {
        findings.push(Finding::fault("group", "no metadata server leads", "a majority of them must be up"));
    }
    match group.members.len() {
        1 => {
            let advice = "take a backup each night: `levada admin meta backup FILE`; or add two (docs/cli.md)";
            findings.push(Finding::advice("group", "there is one metadata server", advice));
        }
        count if count % 2 == 0 => {
            let advice = "add another one, or remove one: an even number bears no more losses";
            findings.push(Finding::advice("group", format!("there are {count} metadata servers"), advice));
        }
        count => findings.push(Finding::well("group", format!("there are {count} metadata servers"))),
    }
}

fn nodes(datanodes: &[Datanode], findings: &mut Vec<Finding>) {
    for node in datanodes {
        findings.extend((!node.live).then(|| away(node)));
        for disk in node.disks.iter().filter(|disk| !disk.failure.is_empty()) {
            let found = format!("{} of {} has failed: {}", disk.dir, node.addr, disk.failure);
            findings.push(Finding::fault(
                "disks",
                found,
                "replace it, or take it out of `dirs` and restart the datanode",
            ));
        }
    }
    let live = datanodes.iter().filter(|node| node.live).count();
    if live == 0 {
        findings.push(Finding::fault("datanodes", "none is up", "start datanodes: without them there are no bytes"));
    } else if live == datanodes.len() {
        findings.push(Finding::well("datanodes", format!("all {live} are up")));
    }
    let mut by_rack: BTreeMap<&str, usize> = BTreeMap::new();
    datanodes.iter().for_each(|node| *by_rack.entry(&node.rack).or_default() += 1);
    if by_rack.len() > 1 && by_rack.contains_key("/default-rack") {
        let advice = "give each datanode a `rack`, or `topology_script` an answer for each";
        findings.push(Finding::advice("names", "some datanodes have a rack and others have none", advice));
    }
}

/// Of a datanode that is not up. Where somebody has it away, that is no fault: a script may ask each night.
fn away(node: &Datanode) -> Finding {
    let (addr, left) = (&node.addr, span::human(node.leave_left_ms));
    if node.drained {
        return Finding::well("datanodes", format!("{addr} is drained, and down: nothing that it has is needed"));
    }
    match (node.leave(), node.silent_ms) {
        (LeaveKind::Maintenance, _) => {
            let advice = "have it back by then; after that, others copy what it has";
            Finding::advice("datanodes", format!("{addr} is down for its maintenance, which has {left} left"), advice)
        }
        (LeaveKind::Restart, _) => {
            let advice = "see that it comes back; after that, others copy what it has";
            Finding::advice("datanodes", format!("{addr} ended in order, and has {left} left to start anew"), advice)
        }
        (LeaveKind::None, Some(silent_ms)) => {
            let advice = "start it; its log says why it ended. What it had is copied from others";
            Finding::fault("datanodes", format!("{addr} is down for {}", span::human(silent_ms)), advice)
        }
        // The leader forgets when it heard one that was revoked.
        (LeaveKind::None, None) => {
            let found = format!("{addr} was not heard by the server that leads, or its certificate was revoked");
            let advice = "start it, or, if it is gone for good, `levada admin datanode drain` it";
            match node.covered {
                true => Finding::advice("datanodes", format!("{found}; others have all that it has"), advice),
                false => Finding::fault("datanodes", format!("{found}; it has what no other has"), advice),
            }
        }
    }
}

fn versions(examined: &ExamineResponse, findings: &mut Vec<Finding>) {
    let own = env!("CARGO_PKG_VERSION");
    let others = examined.datanodes.iter().filter(|node| !node.version.is_empty() && node.version != examined.version);
    let others: Vec<String> = others.map(|node| format!("{} has {}", node.addr, node.version)).collect();
    if !others.is_empty() {
        let found = format!("the metadata server has {}, {}", examined.version, others.join(", "));
        findings.push(Finding::advice("versions", found, "upgrade all servers, the metadata servers first"));
    } else if own != examined.version {
        let found = format!("the servers have {}, this command {own}", examined.version);
        findings.push(Finding::advice("versions", found, "use the version of the servers here, too"));
    } else {
        findings.push(Finding::well("versions", format!("all have {own}")));
    }
}

/// When it will be full: by the mean of all time since it was founded, for want of a better one.
fn space(stats: &FsStats, examined: &ExamineResponse, findings: &mut Vec<Finding>) {
    let FsStats { capacity, used, remaining, .. } = *stats;
    if capacity == 0 {
        return;
    }
    let used_percent = 100 - (u128::from(remaining.min(capacity)) * 100 / u128::from(capacity)) as u64;
    let age_days = examined.now_ms.saturating_sub(examined.founded_ms) / DAY_MS;
    // Younger than a day, or of unknown age: there is no mean yet.
    let per_day = if examined.founded_ms == 0 { 0 } else { used.checked_div(age_days).unwrap_or(0) };
    let days_left = remaining.checked_div(per_day);
    let mut found = format!("{used_percent} % of the disks are taken, {} are free", size::human(remaining));
    if let Some(days) = days_left {
        found += &format!("; at the mean of {} a day over {age_days} days, full in {days} days", size::human(per_day));
    }
    let advice = "add datanodes or disks, or delete what nobody needs";
    findings.push(match (used_percent > FULL_PERCENT_MAX, days_left.is_some_and(|days| days < FULL_SOON_DAYS)) {
        (true, _) => Finding::fault("space", found, advice),
        (false, true) => Finding::advice("space", found, advice),
        (false, false) => Finding::well("space", found),
    });
}

fn blocks(stats: &FsStats, examined: &ExamineResponse, findings: &mut Vec<Finding>) {
    let FsStats { missing_count, corrupt_count, under_replicated_count, .. } = *stats;
    if missing_count > 0 {
        let advice = "start the datanodes that have them; `levada admin under-replicated` names the files";
        findings.push(Finding::fault("blocks", format!("{missing_count} have no copy that is here"), advice));
    }
    if corrupt_count > 0 {
        let advice = "`levada admin under-replicated` names them; sound copies replace damaged ones by themselves";
        findings.push(Finding::fault("blocks", format!("{corrupt_count} are damaged"), advice));
    }
    if under_replicated_count > 0 {
        let advice = "they are copied by themselves: `levada admin jobs` says how far that is, and what it waits for";
        findings.push(Finding::advice("blocks", format!("{under_replicated_count} have too few copies"), advice));
    }
    if examined.found_count > 0 {
        let found = format!("{} are unknown to the backup that was restored", examined.found_count);
        findings.push(Finding::advice("blocks", found, "`levada admin meta found` lists them; they are kept"));
    }
    if missing_count + corrupt_count + under_replicated_count == 0 {
        findings.push(Finding::well("blocks", "each has all its copies"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn a_store_that_fills_up_is_told_of_in_time() {
        let level = |capacity, used, days: u64| {
            let stats = FsStats { capacity, used, remaining: capacity - used, ..FsStats::default() };
            let examined =
                ExamineResponse { now_ms: (days + 1) * DAY_MS, founded_ms: DAY_MS, ..ExamineResponse::default() };
            let mut findings = Vec::new();
            space(&stats, &examined, &mut findings);
            findings[0].level
        };
        assert_eq!(level(1000, 100, 100), Level::Well);
        assert_eq!(level(1000, 800, 100), Level::Advice, "another 25 days");
        assert_eq!(level(1000, 900, 1000), Level::Fault);
        assert_eq!(level(1000, 0, 1), Level::Well);
    }

    #[test]
    fn who_is_away_on_purpose_is_no_fault() {
        let down = Datanode { addr: "h:1".into(), silent_ms: Some(20_000), ..Datanode::default() };
        let leaving = |kind: LeaveKind| Datanode { leave: kind.into(), leave_left_ms: 600_000, ..down.clone() };
        let revoked = |covered| Datanode { silent_ms: None, covered, ..down.clone() };
        for (node, level, says) in [
            (leaving(LeaveKind::Maintenance), Level::Advice, "10 min left"),
            (leaving(LeaveKind::Restart), Level::Advice, "10 min left"),
            (Datanode { draining: true, drained: true, ..down.clone() }, Level::Well, "drained"),
            (Datanode { draining: true, ..down.clone() }, Level::Fault, "down for 20 s"),
            (down.clone(), Level::Fault, "copied from others"),
            (revoked(true), Level::Advice, "revoked"),
            (revoked(false), Level::Fault, "revoked"),
        ] {
            let finding = away(&node);
            assert_eq!(finding.level, level, "{finding}");
            assert!(finding.to_string().contains(says), "{finding}");
            assert!(
                says == "copied from others" || level == Level::Fault || !finding.to_string().contains("is copied")
            );
        }
    }

    #[test]
    fn clocks_are_compared_without_the_way_between() {
        let level = |server| {
            let mut findings = Vec::new();
            clocks(
                1_000_000,
                1_010_000,
                &ExamineResponse { now_ms: server, ..ExamineResponse::default() },
                &mut findings,
            );
            findings[0].level
        };
        assert_eq!([level(1_005_000), level(1_070_000), level(1_070_001)], [Level::Well, Level::Well, Level::Fault]);
        assert_eq!(level(900_000), Level::Fault);
    }
}
