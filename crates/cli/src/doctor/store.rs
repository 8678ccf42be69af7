//! A running store, as its metadata servers know it.

use super::finding::Finding;
use crate::shell::{Session, Stop, advice, size, span, time};
use client::admin::datanodes::{Datanode, LeaveKind, RepairStatusResponse};
use client::admin::examine::ExamineResponse;
use client::{Client, Error, ErrorKind, FsStats};
use host::version::VERSION;
use io::{Clock, SystemClock};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::timeout;
use types::Millis;

/// Kerberos refuses five minutes; certificates and leases are happier with less.
const CLOCK_APART_MAX_MS: u64 = 60_000;
/// A store that is fuller has little left to mend itself with.
const FULL_PERCENT_MAX: u64 = 85;
/// It will be full so soon that disks should be ordered.
const FULL_SOON_DAYS: u64 = 30;
const DAY_MS: u64 = 24 * 3600 * 1000;

/// Groups elect a leader in some two seconds: who has not answered then is not waited for.
const ANSWER_WAIT: Duration = Duration::from_secs(5);

pub(super) async fn examine(session: &Session) -> Result<Vec<Finding>, Stop> {
    let client = &session.target("/")?.client;
    let admin = client.admin();
    let mut findings = Vec::new();
    // Patience is for a store's only server.
    let is_group = client.url().addrs().count() > 1;
    let wait = if is_group { ANSWER_WAIT } else { session.patience() + ANSWER_WAIT };
    let ask = Asking { client, wait };
    // What everybody may ask says whether there is somebody to ask.
    let stats = match ask.answer(client.stats()).await {
        Ok(stats) => stats,
        Err(error) => {
            let advice = advice::on(&error).unwrap_or("see that a metadata server runs and leads there");
            findings.push(Finding::fault("store", format!("{}: {error}", session.whereabouts()), advice));
            if is_group {
                group(&ask, &mut findings).await;
            }
            return Ok(findings);
        }
    };
    let now = || SystemClock::new().now();
    let before = now();
    let examined = ask.known(&["clocks", "versions"], admin.examine(), &mut findings).await;
    if let Some(examined) = &examined {
        clocks(before, now(), examined, &mut findings);
        versions(examined, &mut findings);
    }
    group(&ask, &mut findings).await;
    if let Some(datanodes) = ask.known(&["datanodes", "disks"], admin.datanodes(), &mut findings).await {
        clocks_of(&datanodes, &mut findings);
        nodes(&datanodes, now(), &mut findings);
        if let Some(defaults) = ask.known(&["space"], client.defaults(), &mut findings).await {
            findings.extend(room(&datanodes, defaults.block_len, defaults.replication.into()));
        }
    }
    if let Some(status) = ask.known(&["repair"], admin.repair_status(), &mut findings).await {
        findings.push(repair(&status, now()));
    }
    space(&stats, examined.as_ref(), &mut findings);
    blocks(&stats, examined.as_ref(), &mut findings);
    if ask.known(&["safe mode"], admin.safe_mode(), &mut findings).await == Some(true) {
        let advice = "`levada admin safemode leave`, when whoever entered it is done";
        findings.push(Finding::advice("safe mode", "it is on: nothing of the namespace changes", advice));
    }
    Ok(findings)
}

/// One user's questions.
struct Asking<'a> {
    client: &'a Client,
    /// For each answer.
    wait: Duration,
}

impl Asking<'_> {
    async fn answer<T>(&self, question: impl Future<Output = client::Result<T>>) -> client::Result<T> {
        let silent = || Error::TimedOut { addr: self.client.url().authority.clone() };
        timeout(self.wait, question).await.unwrap_or_else(|_elapsed| Err(silent()))
    }

    /// The same; what is not answered is a finding about each of these.
    async fn known<T>(
        &self,
        about: &[&'static str],
        question: impl Future<Output = client::Result<T>>,
        findings: &mut Vec<Finding>,
    ) -> Option<T> {
        let error = match self.answer(question).await {
            Ok(answer) => return Some(answer),
            Err(error) => error,
        };
        findings.extend(about.iter().map(|about| unanswered(about, &error)));
        None
    }
}

fn unanswered(about: &'static str, error: &Error) -> Finding {
    match error.kind() {
        ErrorKind::Denied => Finding::unknown(about, "only superusers, administrators and observers may ask"),
        _ => Finding::fault(about, error.to_string(), advice::on(error).unwrap_or("look at the server's log")),
    }
}

/// The server's clock was read between two readings of ours.
fn clocks(before: Millis, after: Millis, examined: &ExamineResponse, findings: &mut Vec<Finding>) {
    let apart = before.0.saturating_sub(examined.now_ms).max(examined.now_ms.saturating_sub(after.0));
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

async fn group(ask: &Asking<'_>, findings: &mut Vec<Finding>) {
    let Some(group) = ask.known(&["group"], ask.client.admin().members(), findings).await else { return };
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

/// One that said goodbye was heard a moment ago, and is away all the same.
fn is_up(node: &Datanode) -> bool {
    node.live && node.leave() != LeaveKind::Restart
}

/// It is up, and nobody has said that it may go for a while.
fn is_to_stay(node: &Datanode) -> bool {
    is_up(node) && node.leave() == LeaveKind::None
}

/// It takes new blocks.
fn is_in_service(node: &Datanode) -> bool {
    is_to_stay(node) && !node.draining
}

fn nodes(datanodes: &[Datanode], now: Millis, findings: &mut Vec<Finding>) {
    for node in datanodes {
        findings.extend(if is_up(node) { leaving(node, now) } else { Some(away(node, now)) });
        for disk in node.disks.iter().filter(|disk| !disk.failure.is_empty()) {
            let found = format!("{} of {} has failed: {}", disk.dir, node.addr, disk.failure);
            findings.push(Finding::fault(
                "disks",
                found,
                "replace it, or take it out of `dirs` and restart the datanode",
            ));
        }
    }
    if !datanodes.iter().any(is_up) {
        findings.push(Finding::fault("datanodes", "none is up", "start datanodes: without them there are no bytes"));
    } else if datanodes.iter().all(is_to_stay) {
        findings.push(Finding::well("datanodes", format!("all {} are up", datanodes.len())));
    }
    let mut by_rack: BTreeMap<&str, usize> = BTreeMap::new();
    datanodes.iter().for_each(|node| *by_rack.entry(&node.rack).or_default() += 1);
    if by_rack.len() > 1 && by_rack.contains_key("/default-rack") {
        let advice = "give each datanode a `rack`, or `topology_script` an answer for each";
        findings.push(Finding::advice("names", "some datanodes have a rack and others have none", advice));
    }
}

/// `until 2026-11-21 08:30 UTC (for 59 min more)`.
fn until(now: Millis, left_ms: u64) -> String {
    let end = Millis(now.0.saturating_add(left_ms));
    format!("until {} UTC (for {} more)", time::minute(end), span::human(left_ms))
}

/// Of a datanode that is up, and is to go, or may.
fn leaving(node: &Datanode, now: Millis) -> Option<Finding> {
    let addr = &node.addr;
    let (found, advice) = match node.leave() {
        _ if node.drained => (
            format!("{addr} is drained: nothing that it has is needed"),
            format!("take it away, or `levada admin datanode resume {addr}`"),
        ),
        LeaveKind::Maintenance => (
            format!("{addr} is in maintenance {}", until(now, node.leave_left_ms)),
            format!("`levada admin datanode maintenance {addr} --end`, when the work on it is done"),
        ),
        _ if node.draining => (
            format!("{addr} is being drained"),
            "`levada admin jobs` says how far that is, and what it waits for".to_owned(),
        ),
        LeaveKind::Restart | LeaveKind::None => return None,
    };
    Some(Finding::advice("datanodes", found, advice))
}

/// What repair waits for, which somebody may have forgotten.
fn repair(status: &RepairStatusResponse, now: Millis) -> Finding {
    let Some(left_ms) = status.hold_left_ms else { return Finding::well("repair", "nobody has it wait") };
    let found = format!("it is held {}: no copy is begun", until(now, left_ms));
    Finding::advice("repair", found, "`levada admin repair resume`, when the work is done that it waits for")
}

/// As it told last.
fn has_lost_all_disks(node: &Datanode) -> bool {
    !node.disks.is_empty() && node.disks.iter().all(|disk| !disk.failure.is_empty())
}

/// Of a datanode that is not up. Where somebody has it away, that is no fault: a script may ask each night.
fn away(node: &Datanode, now: Millis) -> Finding {
    let (addr, until) = (&node.addr, until(now, node.leave_left_ms));
    if node.drained {
        return Finding::well("datanodes", format!("{addr} is drained, and down: nothing that it has is needed"));
    }
    match (node.leave(), node.silent_ms) {
        // It comes back with nothing: its leave excuses its silence, and not that loss.
        (LeaveKind::Maintenance | LeaveKind::Restart, _) if has_lost_all_disks(node) => {
            let found = format!("{addr} has lost all its disks, while it is away {until}");
            let advice = "replace them, or mount them again if they are sound. Nobody waits for it: others copy what \
                          they have of it";
            match node.covered {
                true => Finding::advice("datanodes", format!("{found}; others have all that it had"), advice),
                false => Finding::fault("datanodes", format!("{found}; not all that it had is elsewhere"), advice),
            }
        }
        (LeaveKind::Maintenance, _) => {
            let advice = "have it back by then; after that, others copy what it has";
            Finding::advice("datanodes", format!("{addr} is down for its maintenance, {until}"), advice)
        }
        (LeaveKind::Restart, _) => {
            let advice = "see that it comes back; after that, others copy what it has";
            Finding::advice("datanodes", format!("{addr} is restarting, and is waited for {until}"), advice)
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
    let own = VERSION;
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
fn space(stats: &FsStats, examined: Option<&ExamineResponse>, findings: &mut Vec<Finding>) {
    let FsStats { capacity, used, remaining, .. } = *stats;
    if capacity == 0 {
        return;
    }
    let used_percent = 100 - (u128::from(remaining.min(capacity)) * 100 / u128::from(capacity)) as u64;
    // Younger than a day, or of unknown age: there is no mean yet.
    let founded = examined.filter(|examined| examined.founded_ms > 0);
    let age_days = founded.map_or(0, |examined| examined.now_ms.saturating_sub(examined.founded_ms) / DAY_MS);
    let per_day = used.checked_div(age_days).unwrap_or(0);
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

/// A block is placed only where all of it would fit, however little of the disks is taken. Which datanodes take none
/// for another reason is told with each of them.
fn room(datanodes: &[Datanode], block_len: u64, replication: usize) -> Option<Finding> {
    let free: Vec<u64> = datanodes.iter().filter(|node| is_in_service(node)).map(|node| node.free_len).collect();
    let fitting = free.iter().filter(|free_len| **free_len >= block_len).count();
    let (len, most) = (size::human(block_len), size::human(free.iter().copied().max()?));
    match fitting {
        0 => {
            let found = format!("no datanode has room for a block of {len}, as files have them: {most} is the most");
            let advice =
                "writes are refused: delete what nobody needs, add datanodes or disks, or set a smaller block_len";
            Some(Finding::fault("space", found, advice))
        }
        _ if fitting < replication.min(free.len()) => {
            let found = format!("{fitting} of {} datanodes have room for a block of {len}", free.len());
            let advice = "add datanodes or disks, or delete what nobody needs: new blocks get fewer copies than are \
                          wanted";
            Some(Finding::advice("space", found, advice))
        }
        _ => None,
    }
}

fn blocks(stats: &FsStats, examined: Option<&ExamineResponse>, findings: &mut Vec<Finding>) {
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
    let found_count = examined.map_or(0, |examined| examined.found_count);
    if found_count > 0 {
        let found = format!("{found_count} are unknown to the backup that was restored");
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
    use client::admin::datanodes::Disk;

    #[test]
    fn a_store_that_fills_up_is_told_of_in_time() {
        let level = |capacity, used, days: u64| {
            let stats = FsStats { capacity, used, remaining: capacity - used, ..FsStats::default() };
            let examined =
                ExamineResponse { now_ms: (days + 1) * DAY_MS, founded_ms: DAY_MS, ..ExamineResponse::default() };
            let mut findings = Vec::new();
            space(&stats, Some(&examined), &mut findings);
            findings[0].level
        };
        assert_eq!(level(1000, 100, 100), Level::Well);
        assert_eq!(level(1000, 800, 100), Level::Advice, "another 25 days");
        assert_eq!(level(1000, 900, 1000), Level::Fault);
        assert_eq!(level(1000, 0, 1), Level::Well);
    }

    /// Little of the disks is taken, as they are small.
    #[test]
    fn a_store_without_room_for_a_block_is_not_well() {
        let node = |free_len| Datanode { live: true, free_len, ..Datanode::default() };
        let level = |nodes: &[Datanode]| room(nodes, 100, 3).map(|finding| finding.level);
        assert_eq!(level(&[node(99), node(50), node(0)]), Some(Level::Fault));
        assert_eq!(level(&[node(99), Datanode { draining: true, ..node(1000) }]), Some(Level::Fault));
        assert_eq!(level(&[node(100), node(99), node(100)]), Some(Level::Advice));
        assert_eq!(level(&[node(100), node(100)]), None, "as many copies as there are datanodes");
        assert_eq!(level(&[]), None, "that none is up is told");
    }

    #[test]
    fn who_is_away_on_purpose_is_no_fault() {
        let down = Datanode { addr: "h:1".into(), silent_ms: Some(20_000), ..Datanode::default() };
        let leaves = |kind: LeaveKind| Datanode { leave: kind.into(), leave_left_ms: 600_000, ..down.clone() };
        let bare = |covered, kind| Datanode {
            disks: ["it is gone", "it hangs"].map(|why| Disk { failure: why.into(), ..Disk::default() }).into(),
            covered,
            ..leaves(kind)
        };
        let one_left = |mut node: Datanode| {
            node.disks[1].failure.clear();
            node
        };
        let revoked = |covered| Datanode { silent_ms: None, covered, ..down.clone() };
        for (node, level, says) in [
            (leaves(LeaveKind::Maintenance), Level::Advice, "until 1970-01-01 00:10 UTC (for 10 min more)"),
            (leaves(LeaveKind::Restart), Level::Advice, "waited for until 1970-01-01 00:10 UTC"),
            (Datanode { draining: true, drained: true, ..down.clone() }, Level::Well, "drained"),
            (Datanode { draining: true, ..down.clone() }, Level::Fault, "down for 20 s"),
            (down.clone(), Level::Fault, "copied from others"),
            (bare(false, LeaveKind::Maintenance), Level::Fault, "not all that it had is elsewhere"),
            (bare(false, LeaveKind::Restart), Level::Fault, "has lost all its disks"),
            (bare(true, LeaveKind::Maintenance), Level::Advice, "others have all that it had"),
            (one_left(bare(false, LeaveKind::Maintenance)), Level::Advice, "is down for its maintenance"),
            (revoked(true), Level::Advice, "revoked"),
            (revoked(false), Level::Fault, "revoked"),
        ] {
            let finding = away(&node, Millis(0));
            assert_eq!(finding.level, level, "{finding}");
            assert!(finding.to_string().contains(says), "{finding}");
            assert!(
                says == "copied from others" || level == Level::Fault || !finding.to_string().contains("is copied")
            );
        }
    }

    /// Its last heartbeat came a moment before.
    #[test]
    fn who_said_goodbye_is_away_at_once() {
        let up = Datanode { addr: "h:1".into(), live: true, silent_ms: Some(2000), ..Datanode::default() };
        let leaves = |kind: LeaveKind| Datanode { leave: kind.into(), leave_left_ms: 600_000, ..up.clone() };
        let told = |datanodes: &[Datanode]| {
            let mut findings = Vec::new();
            nodes(datanodes, Millis(0), &mut findings);
            findings.into_iter().map(|finding| (finding.level, finding.found)).collect::<Vec<_>>()
        };
        assert_eq!(told(&[up.clone(), up.clone()]), [(Level::Well, "all 2 are up".to_owned())]);
        let found = told(&[up.clone(), leaves(LeaveKind::Restart)]);
        assert!(matches!(&found[..], [(Level::Advice, text)] if text.contains("restarting")), "{found:?}");
        assert!(found[0].1.contains("for 10 min more"), "{found:?}");
        let found = told(&[up.clone(), leaves(LeaveKind::Maintenance)]);
        assert!(matches!(&found[..], [(Level::Advice, text)] if text.contains("in maintenance")), "{found:?}");
        let found = told(&[leaves(LeaveKind::Restart)]);
        assert_eq!(found.last(), Some(&(Level::Fault, "none is up".to_owned())));
    }

    #[test]
    fn what_somebody_has_wait_is_told_with_its_end() {
        let up = Datanode { addr: "h:1".into(), live: true, ..Datanode::default() };
        let maintained =
            Datanode { leave: LeaveKind::Maintenance.into(), leave_left_ms: 3_600_000, covered: true, ..up.clone() };
        let held = RepairStatusResponse { hold_left_ms: Some(3_600_000), ..RepairStatusResponse::default() };
        for (finding, says) in [
            (leaving(&maintained, Millis(0)), "h:1 is in maintenance until 1970-01-01 01:00 UTC (for 60 min more)"),
            (leaving(&Datanode { draining: true, ..up.clone() }, Millis(0)), "h:1 is being drained"),
            (leaving(&Datanode { draining: true, drained: true, ..up.clone() }, Millis(0)), "resume h:1"),
            (Some(repair(&held, Millis(0))), "held until 1970-01-01 01:00 UTC"),
        ] {
            let finding = finding.unwrap();
            assert!(finding.level == Level::Advice && finding.to_string().contains(says), "{finding}");
        }
        assert!(leaving(&up, Millis(0)).is_none());
        assert_eq!(repair(&RepairStatusResponse::default(), Millis(0)).level, Level::Well);
    }

    #[test]
    fn clocks_are_compared_without_the_way_between() {
        let level = |server| {
            let mut findings = Vec::new();
            clocks(
                Millis(1_000_000),
                Millis(1_010_000),
                &ExamineResponse { now_ms: server, ..ExamineResponse::default() },
                &mut findings,
            );
            findings[0].level
        };
        assert_eq!([level(1_005_000), level(1_070_000), level(1_070_001)], [Level::Well, Level::Well, Level::Fault]);
        assert_eq!(level(900_000), Level::Fault);
    }
}
