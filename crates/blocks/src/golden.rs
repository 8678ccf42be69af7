//! The bytes of every command, as the log has it, and of every kind of row: no change of them is made by accident.

use crate::command::Command;
use crate::node::{Incarnation, Node, Outside};
use crate::tables::{
    self, ContainerRow, ContainerState, Counters, JobEnd, JobKind, JobRow, JobTask, Leave, LeaveKind, Listed,
    PipelineRow, RepairHold, Restored, Service, Work,
};
use std::collections::BTreeSet;
use testkit::golden::{Golden, is_variant, variant};
use types::rows::MemoryRows;
use types::{ContainerId, Epoch, Millis, NodeId, PipelineId};

const ONE: NodeId = NodeId([1; 16]);
const TWO: NodeId = NodeId([2; 16]);
const PIPELINE: PipelineId = PipelineId(300);
const CONTAINER: ContainerId = ContainerId(700);
const EPOCH: Epoch = Epoch(5);

const HOLD: RepairHold = RepairHold { until: Millis(1_700_000_000_900) };

const LISTED: Listed = Listed { is_excluded: true, is_in_maintenance: false };

fn leave(kind: LeaveKind) -> Leave {
    Leave { kind, until: Millis(1_700_000_000_700) }
}

fn node() -> Node {
    Node {
        id: ONE,
        ip: "10.0.0.7".into(),
        host: "node7".into(),
        xfer_port: 9866,
        ipc_port: 9867,
        info_port: 9864,
        storage: "DS-7".into(),
        rack: "/rack-1".into(),
        incarnation: Incarnation { start_ms: 1_700_000_000_000, nonce: 1 << 63 },
        from: "192.168.0.7".into(),
        outside: None,
    }
}

fn job_end() -> JobEnd {
    let work = Work {
        done_len: 1 << 30,
        total_len: 1 << 31,
        done_count: 10,
        total_count: 20,
        found_count: 2,
        mended_count: 1,
    };
    JobEnd { at: Millis(1_700_000_000_500), stopped: true, note: "stopped".into(), work }
}

/// A job of each kind, with what its leader needs.
fn jobs() -> Vec<JobRow> {
    let (number, len_per_s, within, nodes) = (4, 1 << 20, 50_000_000, vec![ONE, TWO]);
    let kinds = [
        (JobKind::Repair, JobTask::Known, None),
        (JobKind::Drain, JobTask::Known, Some(job_end())),
        (JobKind::Balance, JobTask::Balance { within, len_per_s: None }, None),
        (JobKind::Scrub, JobTask::Scrub { number, len_per_s, nodes: nodes.clone() }, None),
        (JobKind::BalanceDisks, JobTask::BalanceDisks { number, len_per_s, within, nodes }, None),
        (JobKind::Balance, JobTask::Balance { within, len_per_s: Some(len_per_s) }, None),
    ];
    let started = Millis(1_700_000_000_000);
    kinds.map(|(kind, task, end)| JobRow { kind, subject: "node7".into(), started, task, end }).into()
}

/// One of each, in the order of their numbers in the log.
fn commands() -> Vec<Command> {
    let members = || vec![ONE, TWO];
    let containers = || vec![CONTAINER, ContainerId(701)];
    vec![
        Command::Register(node()),
        Command::CreateSet { members: members(), wanted: 3, planned: true },
        Command::OpenContainer { pipeline: PIPELINE },
        Command::LeaseIndexes { container: CONTAINER, from: 100, up_to: 200, lessee: 1 << 63, len: 1 << 30 },
        Command::Seal { container: CONTAINER, len: 1 << 30 },
        Command::FinishSeal { container: CONTAINER },
        Command::SetMembers { pipeline: PIPELINE, epoch: EPOCH, members: members() },
        Command::Whole { containers: vec![(CONTAINER, PIPELINE, EPOCH)] },
        Command::Joined { pipeline: PIPELINE, epoch: EPOCH },
        Command::Merge { from: PIPELINE, into: PipelineId(301), containers: containers() },
        Command::SetService { node: ONE, service: Service::Draining },
        Command::Carve { from: PIPELINE, epoch: EPOCH, containers: containers(), members: members() },
        Command::BeginJob { id: 9, row: jobs().remove(3) },
        Command::EndJob { id: 9, end: job_end() },
        Command::RemoveContainer { container: CONTAINER },
        Command::SetLeave { node: ONE, leave: Some(leave(LeaveKind::Restart)) },
        Command::HoldRepair { hold: Some(HOLD) },
        Command::ReleaseFound { at: Millis(1_795_280_000_000) },
        Command::SetListed { node: ONE, listed: LISTED },
    ]
}

#[test]
fn commands_in_the_log() {
    let golden = Golden::of_variants(&commands());
    golden.hold(concat!(env!("CARGO_MANIFEST_DIR"), "/src/golden_commands.txt"));
}

#[test]
fn rows_in_the_store() {
    let mut rows = MemoryRows::default();
    tables::put_node(&mut rows, &node());
    let outside = Outside { host: "gate.example.com".into(), xfer_port: 19866, ipc_port: 19867, info_port: 19864 };
    tables::put_node(&mut rows, &Node { id: TWO, outside: Some(outside), ..node() });
    let pipeline = PipelineRow {
        epoch: EPOCH,
        members: vec![ONE, TWO],
        planned: true,
        wanted: 3,
        joining: vec![(TWO, Epoch(4))],
        former: vec![NodeId([3; 16])],
        container_count: 2,
    };
    tables::put_pipeline(&mut rows, PIPELINE, &pipeline);
    let states = [ContainerState::Open, ContainerState::Sealing, ContainerState::Sealed];
    for (at, state) in states.into_iter().enumerate() {
        let row = ContainerRow { pipeline: PIPELINE, epoch: EPOCH, state, leased_index_count: 200, len: 1 << 30 };
        tables::put_container(&mut rows, ContainerId(CONTAINER.0 + at as u64), &row);
    }
    tables::put_counters(&mut rows, Counters { pipeline: 301, container: 702 });
    tables::put_service(&mut rows, ONE, Service::Serving);
    tables::put_service(&mut rows, TWO, Service::Draining);
    let restored = Restored {
        at: Millis(1_795_279_265_000),
        made: Millis(1_795_249_805_000),
        last_container: CONTAINER,
        released: None,
    };
    tables::put_restored(&mut rows, &restored);
    tables::put_leave(&mut rows, ONE, Some(leave(LeaveKind::Maintenance)));
    tables::put_leave(&mut rows, TWO, Some(leave(LeaveKind::Restart)));
    tables::put_repair_hold(&mut rows, Some(HOLD));
    tables::put_listed(&mut rows, ONE, LISTED);
    tables::put_listed(&mut rows, TWO, Listed::default());
    let jobs = jobs();
    for (id, job) in (1..).zip(&jobs) {
        tables::put_job(&mut rows, id, job);
        assert_eq!(tables::job(&rows, id).unwrap().as_ref(), Some(job));
    }

    let mut golden = Golden::default();
    let mut seen = BTreeSet::new();
    for (table, key, value) in rows.iter() {
        seen.insert(table.0);
        let key: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        golden.add(format!("{}.{key}", table.0), value);
    }
    let released = Restored { released: Some(Millis(1_795_280_000_000)), ..restored };
    golden.add("24.released", &tables::encode(&released));
    golden.hold(concat!(env!("CARGO_MANIFEST_DIR"), "/src/golden_rows.txt"));
    let tables = include_str!("tables.rs").matches(": Table = Table(").count();
    assert_eq!(seen.len(), tables, "each table has its example");
    assert!(!is_variant::<ContainerState>(states.len()), "each state has its example");
    assert!(!is_variant::<JobKind>(jobs.len()), "each kind of job has its example");
    let tasks: BTreeSet<String> = jobs.iter().map(|job| variant(&job.task)).collect();
    assert!(!is_variant::<JobTask>(tasks.len()), "each task has its example");
    assert!(is_variant::<Service>(1) && !is_variant::<Service>(2), "each service has its example");
    assert!(is_variant::<LeaveKind>(1) && !is_variant::<LeaveKind>(2), "each kind of leave has its example");
}

/// A row that a newer program wrote is refused, not misread.
#[test]
fn other_versions_are_refused() {
    let newer = |version: u8, mut bytes: Vec<u8>| {
        bytes[0] = version + 1;
        bytes
    };
    assert!(tables::decode::<Node>(&newer(tables::VERSION, tables::encode(&node()))).is_err());
    let job = &jobs()[0];
    assert!(tables::decode::<JobRow>(&newer(tables::VERSION, tables::encode(job))).is_err());
}
