//! `levada admin datanode`

use super::jobs::wait;
use super::joining;
use super::table;
use crate::shell::{Common, Failure, Session, Stop, size, span};
use client::admin::datanodes::{Datanode, Disk, LeaveKind};
use serde::Serialize;
use std::time::Duration;

/// Between two looks of who waits until a datanode may go.
const LOOK_EACH: Duration = Duration::from_secs(1);
/// Looks in a row that show found blocks on a datanode alone, until that is believed.
const ALONE_LOOKS: u32 = 5;
/// Looks before who waits is told what for.
const SILENT_LOOKS: u32 = 5;
/// Transfers are waited for no longer: readers go on elsewhere, and so do writers of files that stay open for hours.
const TRANSFERS_WAIT: Duration = Duration::from_secs(30);

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List the datanodes: who is up, what they hold, who is being emptied
    List(ListArgs),
    /// Empty a datanode, so that it can be taken away: others copy what it has, and it takes no new blocks
    Drain(DrainArgs),
    /// Take a datanode back into service
    Resume(ResumeArgs),
    /// Say that a datanode may be away for a while: others do not copy what it has, and it takes no new blocks
    Maintenance(MaintenanceArgs),
    /// Make a token by which a datanode joins a store whose servers have certificates
    Invite(joining::InviteArgs),
    /// List the invitations that have not expired, and who joined by them
    Invitations(joining::ListArgs),
    /// Withdraw an invitation that nobody is to use any more
    Uninvite(joining::WithdrawArgs),
    /// Let the certificates that a datanode has count no more: it was stolen, or was taken away for good
    Revoke(joining::RevokeArgs),
}

impl Command {
    pub(super) fn common(&self) -> &Common {
        match self {
            Self::List(args) => &args.common,
            Self::Drain(args) => &args.common,
            Self::Resume(args) => &args.common,
            Self::Maintenance(args) => &args.common,
            Self::Invite(args) => &args.common,
            Self::Invitations(args) => &args.common,
            Self::Uninvite(args) => &args.common,
            Self::Revoke(args) => &args.common,
        }
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DrainArgs {
    /// Its id, the beginning of its id, or its address; see `levada admin datanode list`
    datanode: String,
    /// Return when it is empty; without it, see `levada admin jobs`
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ResumeArgs {
    /// Its id, the beginning of its id, or its address
    datanode: String,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
pub(crate) struct MaintenanceArgs {
    /// Its id, the beginning of its id, or its address
    datanode: String,
    /// For how long, as 30m or 8h, at most 30d; if it is not back by then, others copy what it has
    #[arg(long = "for", value_name = "TIME", value_parser = span::parse, required_unless_present = "end")]
    span: Option<u64>,
    /// It is over: the datanode serves as usual again
    #[arg(long, conflicts_with = "span")]
    end: bool,
    /// Return when it may go: others have what it has, and nothing is read or written there any more
    #[arg(long, conflicts_with = "end")]
    wait: bool,
    #[command(flatten)]
    common: Common,
}

/// A line of `--json`.
#[derive(Debug, Serialize)]
struct Line {
    id: String,
    addr: String,
    host: String,
    rack: String,
    state: &'static str,
    /// Since it was heard; `null` if it never was by the server that leads.
    silent_ms: Option<u64>,
    capacity: u64,
    used: u64,
    free: u64,
    transfers: u32,
    pipelines: u64,
    containers: u64,
    /// Until its maintenance or its time to restart is over; `null` if its silence counts.
    leave_left_ms: Option<u64>,
    /// By how much its clock is ahead of that of the server that leads; `null`: not known.
    clock_ahead_ms: Option<i64>,
    disks: Vec<DiskLine>,
}

/// One disk of a datanode.
#[derive(Debug, Serialize)]
struct DiskLine {
    dir: String,
    volume: String,
    /// `ok`, `full` (it takes no new replicas until there is room) or `failed`.
    state: &'static str,
    /// Why it failed.
    #[serde(skip_serializing_if = "String::is_empty")]
    failure: String,
    capacity: u64,
    used: u64,
    free: u64,
    replicas: u64,
    streams: u64,
    /// Since when the replica that waits longest for the background scrub was not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    unread_ms: Option<u64>,
}

impl From<Disk> for DiskLine {
    fn from(disk: Disk) -> Self {
        let state = match (disk.failure.is_empty(), disk.free_len) {
            (false, _) => "failed",
            (true, 0) => "full",
            (true, _) => "ok",
        };
        Self {
            dir: disk.dir,
            volume: disk.volume,
            state,
            failure: disk.failure,
            capacity: disk.capacity_len,
            used: disk.used_len,
            free: disk.free_len,
            replicas: disk.replica_count,
            streams: disk.stream_count,
            unread_ms: disk.unread_ms,
        }
    }
}

impl From<Datanode> for Line {
    fn from(node: Datanode) -> Self {
        let leave = node.leave();
        let state = match (node.live, node.draining, node.drained, leave) {
            (_, true, true, _) => "drained",
            (true, _, _, LeaveKind::Maintenance) if !node.covered => "entering maintenance",
            (.., LeaveKind::Maintenance) => "in maintenance",
            (.., LeaveKind::Restart) => "restarting",
            (false, ..) => "down",
            (true, false, ..) => "up",
            (true, true, false, _) => "draining",
        };
        Self {
            id: node.id,
            addr: node.addr,
            host: node.host,
            rack: node.rack,
            state,
            silent_ms: node.silent_ms,
            capacity: node.capacity_len,
            used: node.used_len,
            free: node.free_len,
            transfers: node.transfer_count,
            pipelines: node.pipeline_count,
            containers: node.container_count,
            leave_left_ms: (leave != LeaveKind::None).then_some(node.leave_left_ms),
            clock_ahead_ms: node.clock_ahead_ms,
            disks: node.disks.into_iter().map(DiskLine::from).collect(),
        }
    }
}

impl Line {
    fn state_text(&self) -> String {
        let Some(left_ms) = self.leave_left_ms else { return self.state.to_owned() };
        format!("{} ({} left)", self.state, span::human(left_ms))
    }

    /// How many there are, and which of them are not as they should be.
    fn disks_text(&self) -> String {
        // A leader that has just begun has not been told.
        if self.disks.is_empty() {
            return "?".to_owned();
        }
        let count = |state| self.disks.iter().filter(|disk| disk.state == state).count();
        let mut text = format!("{} ok", count("ok"));
        for disk in self.disks.iter().filter(|disk| disk.state != "ok") {
            text += &format!(", {} {}", disk.dir, disk.state);
            if !disk.failure.is_empty() {
                text += &format!(" ({})", disk.failure);
            }
        }
        text
    }
}

pub(super) async fn run(command: Command, session: &Session) -> Result<(), Stop> {
    match command {
        Command::List(_) => list(session).await,
        Command::Invite(args) => joining::invite(args, session).await,
        Command::Invitations(_) => joining::list(session).await,
        Command::Uninvite(args) => joining::withdraw(args, session).await,
        Command::Revoke(args) => joining::revoke(args, session).await,
        Command::Drain(args) => drain(args, session).await,
        Command::Maintenance(args) => maintenance(args, session).await,
        Command::Resume(args) => {
            let target = session.target("/")?;
            let id = target.client.admin().resume(&args.datanode).await.map_err(|error| target.failure(&error))?;
            print_node(session, &id, 0, &format!("{id} serves again"))
        }
    }
}

async fn list(session: &Session) -> Result<(), Stop> {
    let target = session.target("/")?;
    let nodes = target.client.admin().datanodes().await.map_err(|error| target.failure(&error))?;
    let lines: Vec<Line> = nodes.into_iter().map(Line::from).collect();
    if session.output.is_json() {
        return lines.iter().try_for_each(|line| session.output.json(line));
    }
    let row = |line: &Line| {
        // The leader forgets that of a node that was revoked, and has not heard it if it leads since.
        let heard = line.silent_ms.map_or("-".to_owned(), |ms| format!("{} ago", span::human(ms)));
        let whole = line.used.saturating_add(line.free).max(1);
        [
            line.id.clone(),
            line.addr.clone(),
            line.rack.clone(),
            line.state_text(),
            heard,
            size::human(line.used),
            size::human(line.free),
            format!("{}%", (u128::from(line.used) * 100 / u128::from(whole)) as u64),
            line.transfers.to_string(),
            line.pipelines.to_string(),
            line.containers.to_string(),
            line.disks_text(),
        ]
    };
    let head = [
        "ID",
        "ADDRESS",
        "RACK",
        "STATE",
        ">HEARD",
        ">USED",
        ">FREE",
        ">USE%",
        ">TRANSFERS",
        ">PIPELINES",
        ">CONTAINERS",
        "DISKS",
    ];
    table::print(session, head, &lines.iter().map(row).collect::<Vec<_>>())
}

async fn drain(args: DrainArgs, session: &Session) -> Result<(), Stop> {
    let target = session.target("/")?;
    let (id, job) = target.client.admin().drain(&args.datanode).await.map_err(|error| target.failure(&error))?;
    if !args.wait {
        return print_node(session, &id, job, &format!("{id} is being emptied: job {job}, see levada admin jobs"));
    }
    wait(session, &target, job).await
}

async fn maintenance(args: MaintenanceArgs, session: &Session) -> Result<(), Stop> {
    let target = session.target("/")?;
    let admin = target.client.admin();
    let span = args.span.unwrap_or(0);
    let id = admin.maintenance(&args.datanode, span).await.map_err(|error| target.failure(&error))?;
    if args.wait {
        let mut patience = Patience::new();
        let mut waits = 0;
        loop {
            // Its last heartbeat may have come before the last block was placed there.
            tokio::time::sleep(LOOK_EACH).await;
            let nodes = admin.datanodes().await.map_err(|error| target.failure(&error))?;
            let Some(node) = nodes.into_iter().find(|node| node.id == id).filter(|node| node.live) else { break };
            match patience.on_look(&node) {
                Step::Wait => {
                    waits += 1;
                    if waits == SILENT_LOOKS && !session.output.is_json() {
                        eprintln!("levada: waiting: {}; Ctrl-C ends only the waiting", waits_for(&node));
                    }
                }
                Step::Go => break,
                Step::Alone(count) => {
                    let text = format!("{count} blocks that the restored backup did not know are on {id} alone");
                    let advice = "save them by `levada admin meta found save`, and release them by `levada admin meta \
                                  found release`; or have it go all the same: they are away until it is back";
                    return Err(Failure::new(&target, text).advise(advice).into());
                }
            }
        }
    }
    let text = match (span, args.wait) {
        (0, _) => format!("the maintenance of {id} is over"),
        (_, true) => format!("{id} is in maintenance for {}, and may go", span::human(span)),
        (_, false) => format!("{id} is in maintenance for {}", span::human(span)),
    };
    print_node(session, &id, 0, &text)
}

/// What comes of a look at a datanode that is to go into maintenance.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Wait,
    Go,
    /// It alone has so many found blocks. Nobody copies these: the wait would not end.
    Alone(u64),
}

/// What keeps a datanode from its maintenance, for whoever waits.
fn waits_for(node: &Datanode) -> String {
    let addr = &node.addr;
    match (node.covered, node.leased) {
        (false, _) => format!("others have not yet all that {addr} has, or what is being written there"),
        (true, true) => format!("clients may still begin blocks on {addr}, for a minute at most"),
        (true, false) => format!("{} transfers of {addr} go on, for half a minute at most", node.transfer_count),
    }
}

/// How long who waits for a datanode goes on.
struct Patience {
    /// Looks in a row that showed found blocks on it alone: other datanodes may not have reported yet.
    alone: u32,
    /// Looks that are left at its last transfers.
    transfers: u64,
}

impl Patience {
    fn new() -> Self {
        Self { alone: 0, transfers: TRANSFERS_WAIT.as_secs() / LOOK_EACH.as_secs() }
    }

    fn on_look(&mut self, node: &Datanode) -> Step {
        self.alone = if node.lone_found_count > 0 { self.alone + 1 } else { 0 };
        if self.alone >= ALONE_LOOKS {
            return Step::Alone(node.lone_found_count);
        }
        if !node.covered || node.leased {
            return Step::Wait;
        }
        if node.transfer_count == 0 || self.transfers == 0 {
            return Step::Go;
        }
        self.transfers -= 1;
        Step::Wait
    }
}

fn print_node(session: &Session, id: &str, job: u64, text: &str) -> Result<(), Stop> {
    if session.output.is_json() {
        session.output.json(&serde_json::json!({ "id": id, "job": (job > 0).then_some(job) }))
    } else {
        session.output.line(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After a restore another datanode has a shorter replica of a found block, or too many were found to list them:
    /// the server counts them as on this one alone, and so does who waits.
    #[test]
    fn the_wait_for_a_datanode_ends_at_found_blocks_that_it_alone_has() {
        let at = |covered, lone_found_count| Datanode { covered, lone_found_count, ..Datanode::default() };
        let mut patience = Patience::new();
        let mut looks = |node: &Datanode, count: u32| (0..count).map(|_| patience.on_look(node)).collect::<Vec<_>>();
        let is_waiting = |steps: Vec<Step>| steps.iter().all(|step| *step == Step::Wait);
        assert!(is_waiting(looks(&at(false, 2), ALONE_LOOKS - 1)), "others may not have reported yet");
        assert!(is_waiting(looks(&at(false, 0), 99)), "others copy what they lack");
        assert_eq!(looks(&at(false, 2), ALONE_LOOKS).pop(), Some(Step::Alone(2)));
        assert_eq!(looks(&at(true, 0), 1), [Step::Go]);
    }

    #[test]
    fn who_waits_is_told_what_for() {
        let at = |covered, leased| Datanode { covered, leased, transfer_count: 3, ..Datanode::default() };
        for (node, says) in [
            (at(false, true), "others have not yet"),
            (at(true, true), "may still begin blocks"),
            (at(true, false), "3 transfers"),
        ] {
            assert!(waits_for(&node).contains(says), "{}", waits_for(&node));
        }
    }

    #[test]
    fn transfers_are_waited_for_and_not_for_ever() {
        let node = Datanode { covered: true, transfer_count: 1, ..Datanode::default() };
        let mut patience = Patience::new();
        let steps: Vec<Step> = (0..31).map(|_| patience.on_look(&node)).collect();
        assert!(steps[..30].iter().all(|step| *step == Step::Wait));
        assert_eq!(steps[30], Step::Go);
        assert_eq!(patience.on_look(&Datanode { leased: true, ..node }), Step::Wait);
    }
}
