//! Stories of what `hdfs dfsadmin` is told of datanodes.

use crate::support::{User, World, refusal};
use hdfs::proto::datanode_info_proto::AdminState;
use hdfs::proto::*;
use std::time::Duration;
use wire::admin::ADMIN_PROTOCOL;
use wire::admin::datanodes::{DRAIN, DrainRequest, DrainResponse};
use wire::node;

async fn datanode_report(user: &User, kind: DatanodeReportTypeProto) -> Vec<DatanodeInfoProto> {
    let request = GetDatanodeReportRequestProto { r#type: kind.into() };
    let answer: GetDatanodeReportResponseProto = user.ask("getDatanodeReport", &request).await.unwrap();
    answer.di
}

fn disk(volume: &str, failure: &str, replica_count: u64) -> node::Disk {
    node::Disk {
        volume: volume.into(),
        dir: format!("/{volume}"),
        failure: failure.into(),
        capacity_len: 1000,
        used_len: 100,
        free_len: 850,
        replica_count,
        ..node::Disk::default()
    }
}

#[tokio::test]
async fn a_report_has_what_the_store_knows() {
    let world = World::new(2).await;
    let root = world.root();
    let request = node::HeartbeatRequest {
        node: world.nodes[0].id.to_string(),
        usage: Some(node::Usage { capacity_len: 2000, used_len: 200, free_len: 1700 }),
        disks: vec![disk("one", "", 3), disk("two", "Input/output error", 4)],
        sender: Some(world.nodes[0].sender()),
        ..Default::default()
    };
    let rpc = world.nodes[0].rpc(world.addr());
    let _: node::Orders = rpc.call(node::HEARTBEAT, &request).await.unwrap();

    let live = datanode_report(&root, DatanodeReportTypeProto::Live).await;
    let first = live.iter().find(|info| info.id.datanode_uuid == request.node).unwrap();
    assert_eq!((first.num_blocks, first.software_version.as_deref(), first.admin_state), (Some(7), Some("test"), None));
    let report = GetDatanodeStorageReportRequestProto { r#type: DatanodeReportTypeProto::Live.into() };
    let answer: GetDatanodeStorageReportResponseProto = root.ask("getDatanodeStorageReport", &report).await.unwrap();
    let reports = answer.datanode_storage_reports;
    let of_first = reports.iter().find(|info| info.datanode_info.id.datanode_uuid == request.node).unwrap();
    let storages: Vec<_> =
        of_first.storage_reports.iter().map(|report| (&*report.storage_uuid, report.failed)).collect();
    assert_eq!(storages, [("DS-one", Some(false)), ("DS-two", Some(true))]);
    assert_eq!(of_first.storage_reports[0].non_dfs_used, Some(50));
}

/// Each list of a heartbeat is gone through while others wait, and what is reported of disks is kept.
#[tokio::test]
async fn a_heartbeat_lists_no_more_than_a_node_can_have() {
    let world = World::new(1).await;
    let rpc = world.nodes[0].rpc(world.addr());
    let honest = node::HeartbeatRequest {
        node: world.nodes[0].id.to_string(),
        sender: Some(world.nodes[0].sender()),
        ..Default::default()
    };
    let many = vec![1; node::PAGE_COUNT_MAX + 1];
    let requests = [
        node::HeartbeatRequest { disks: vec![node::Disk::default(); node::DISK_COUNT_MAX + 1], ..honest.clone() },
        node::HeartbeatRequest { deleted: many.clone(), ..honest.clone() },
        node::HeartbeatRequest { copying: many, ..honest.clone() },
    ];
    for request in requests {
        let answer: Result<node::Orders, _> = rpc.call(node::HEARTBEAT, &request).await;
        assert_eq!(refusal(answer).0, "IllegalArgument");
    }
    assert!(rpc.call::<_, node::Orders>(node::HEARTBEAT, &honest).await.unwrap().known);
}

#[tokio::test]
async fn a_drain_is_a_decommissioning() {
    let world = World::new(2).await;
    let root = world.root();
    root.write(&world, "/f", &[1]).await;
    assert!(datanode_report(&root, DatanodeReportTypeProto::Decommissioning).await.is_empty());
    let id = world.nodes[0].id.to_string();
    let request = DrainRequest { datanode: id.clone(), drain: true };
    let name = root.rpc.name_call();
    let _: DrainResponse = root.rpc.attempt_in(ADMIN_PROTOCOL, name, DRAIN, &request).await.unwrap();
    // There is nobody to take over, so it goes on.
    let draining = datanode_report(&root, DatanodeReportTypeProto::Decommissioning).await;
    assert_eq!(draining.len(), 1);
    assert_eq!(draining[0].id.datanode_uuid, id);
    assert_eq!(draining[0].admin_state, Some(AdminState::DecommissionInprogress.into()));
    assert_eq!(datanode_report(&root, DatanodeReportTypeProto::Live).await.len(), 2);
}

#[tokio::test]
async fn a_drained_node_is_decommissioned() {
    let mut world = World::new(2).await;
    let root = world.root();
    let id = world.nodes[0].id.to_string();
    let request = DrainRequest { datanode: id.clone(), drain: true };
    let name = root.rpc.name_call();
    let _: DrainResponse = root.rpc.attempt_in(ADMIN_PROTOCOL, name, DRAIN, &request).await.unwrap();
    let state = async || {
        let all = datanode_report(&root, DatanodeReportTypeProto::All).await;
        all.into_iter().find(|info| info.id.datanode_uuid == id).unwrap().admin_state
    };
    world.until("it is empty", async || state().await == Some(AdminState::Decommissioned.into())).await;
    assert!(datanode_report(&root, DatanodeReportTypeProto::Decommissioning).await.is_empty());

    // It is switched off, as it was drained for. HDFS's reports have it among the dead; nobody misses it.
    world.nodes[0].kill();
    world.pass(Duration::from_secs(60)).await;
    assert_eq!(datanode_report(&root, DatanodeReportTypeProto::Dead).await.len(), 1);
    let nodes = &world.metad.status()["nodes"];
    assert_eq!(["live", "away", "dead"].map(|state| nodes[state].as_u64()), [Some(1), Some(1), Some(0)], "{nodes}");
    let its = nodes["list"].as_array().unwrap().iter().find(|node| node["id"] == id).unwrap();
    assert_eq!((&its["state"], &its["admin_state"]), (&"away".into(), &"DECOMMISSIONED".into()), "{its}");
}
