//! `/jmx`: the status by the names of Hadoop's beans, for the monitors that sites have (Ambari, Datadog, check_hadoop).
//!
//! Source of names and units: Hadoop's "Metrics" page (Metrics.md) and `FSNamesystemMBean`, 3.4. Lengths are bytes.
//! What this store has no word for is left out: a monitor takes a missing attribute for unknown, and 0 for well.

use serde_json::{Value, json};

/// Beans whose name the query matches: the name itself, or with `*` at its end all that begin so. None: all.
pub(crate) fn page(status: &Value, query: Option<&str>) -> Value {
    let is_asked = |bean: &Value| {
        let name = bean["name"].as_str().unwrap_or_default();
        match query.map(|query| (query, query.strip_suffix('*'))) {
            None | Some(("*:*", _)) => true,
            Some((_, Some(head))) => name.starts_with(head),
            Some((query, None)) => name == query,
        }
    };
    let beans = if status["group"].is_object() { of_namenode(status) } else { of_datanode(status) };
    json!({ "beans": beans.into_iter().filter(is_asked).collect::<Vec<_>>() })
}

fn of_namenode(status: &Value) -> Vec<Value> {
    let state = if status["leader"] == true { "active" } else { "standby" };
    let in_safe_mode = status["safe_mode"] == true;
    let name = "Hadoop:service=NameNode,name=NameNodeStatus";
    let mut beans = vec![json!({ "name": name, "NNRole": "NameNode", "State": state })];
    // Members that stand by know neither nodes nor copies.
    if status["space"].is_object() {
        let (space, blocks, nodes) = (&status["space"], &status["blocks"], &status["nodes"]);
        beans.push(json!({
            "name": "Hadoop:service=NameNode,name=FSNamesystem", "tag.HAState": state,
            "CapacityTotal": space["capacity_len"], "CapacityUsed": space["used_len"],
            "CapacityRemaining": space["free_len"], "MissingBlocks": blocks["missing"],
            "CorruptBlocks": blocks["corrupt"], "UnderReplicatedBlocks": blocks["under_replicated"],
            "LowRedundancyBlocks": blocks["under_replicated"], "PendingReplicationBlocks": blocks["pending"],
            "PendingReconstructionBlocks": blocks["pending"], "PendingDeletionBlocks": status["doomed_blocks"],
            "NumActiveClients": status["writers"],
        }));
        beans.push(json!({
            "name": "Hadoop:service=NameNode,name=FSNamesystemState",
            "FSState": if in_safe_mode { "safeMode" } else { "Operational" },
            "CapacityTotal": space["capacity_len"], "CapacityUsed": space["used_len"],
            "CapacityRemaining": space["free_len"], "UnderReplicatedBlocks": blocks["under_replicated"],
            "PendingReplicationBlocks": blocks["pending"], "PendingDeletionBlocks": status["doomed_blocks"],
            "VolumeFailuresTotal": status["disks"]["failed"],
        }));
        if let (Some(state), Some(nodes)) = (beans.last_mut(), nodes["list"].as_array()) {
            node_counts(nodes).into_iter().for_each(|(name, count)| state[name] = count.into());
        }
        beans.push(json!({
            "name": "Hadoop:service=NameNode,name=NameNodeInfo",
            "Total": space["capacity_len"], "Used": space["used_len"], "Free": space["free_len"],
            "PercentUsed": percent(&space["used_len"], &space["capacity_len"]),
            "PercentRemaining": percent(&space["free_len"], &space["capacity_len"]),
            "Safemode": if in_safe_mode { "Safe mode is ON." } else { "" },
            "NumberOfMissingBlocks": blocks["missing"], "SoftwareVersion": status["version"],
            "BlockPoolId": status["pool"],
        }));
    }
    beans
}

/// As HDFS counts: among the dead are those in maintenance, and those that were decommissioned, and they are counted
/// apart, too. One that restarts is neither dead nor live: HDFS waits for it as well. Nor is it told whether a
/// maintenance has only just begun: that takes a look at all that the node has, and anybody may ask for a page.
fn node_counts(nodes: &[Value]) -> [(&'static str, usize); 7] {
    const LIVE: &str = "live";
    const DEAD: &str = "dead";
    let presence = |node: &Value| match (node["state"].as_str(), node["leave"].as_str()) {
        (Some("live"), _) => Some(LIVE),
        (Some("away"), Some("restart")) => None,
        _ => Some(DEAD),
    };
    let count = |is_counted: &dyn Fn(&Value) -> bool| nodes.iter().filter(|node| is_counted(node)).count();
    let of = |wanted: &str, state: &str| count(&|node| presence(node) == Some(wanted) && node["admin_state"] == state);
    [
        ("NumLiveDataNodes", count(&|node| presence(node) == Some(LIVE))),
        ("NumDeadDataNodes", count(&|node| presence(node) == Some(DEAD))),
        ("NumDecomLiveDataNodes", of(LIVE, "DECOMMISSIONED")),
        ("NumDecomDeadDataNodes", of(DEAD, "DECOMMISSIONED")),
        ("NumDecommissioningDataNodes", count(&|node| node["admin_state"] == "DECOMMISSION_INPROGRESS")),
        ("NumInMaintenanceLiveDataNodes", of(LIVE, "IN_MAINTENANCE")),
        ("NumInMaintenanceDeadDataNodes", of(DEAD, "IN_MAINTENANCE")),
    ]
}

fn of_datanode(status: &Value) -> Vec<Value> {
    let disks = status["disks"].as_array().map_or(&[][..], Vec::as_slice);
    let sum = |key: &str| disks.iter().filter_map(|disk| disk[key].as_u64()).fold(0, u64::saturating_add);
    let failed =
        disks.iter().filter(|disk| disk["failure"].as_str().is_some_and(|failure| !failure.is_empty())).count();
    vec![
        json!({
            "name": "Hadoop:service=DataNode,name=FSDatasetState", "Capacity": sum("capacity_len"),
            "DfsUsed": sum("used_len"), "Remaining": sum("free_len"), "NumFailedVolumes": failed,
        }),
        json!({
            "name": "Hadoop:service=DataNode,name=DataNodeInfo", "DatanodeId": status["node"],
            "XceiverCount": status["transfers"], "SoftwareVersion": status["version"],
        }),
    ]
}

fn percent(part: &Value, whole: &Value) -> f64 {
    match (part.as_f64(), whole.as_f64()) {
        (Some(part), Some(whole)) if whole > 0.0 => part / whole * 100.0,
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(page: &Value) -> Vec<&str> {
        page["beans"].as_array().unwrap().iter().map(|bean| bean["name"].as_str().unwrap()).collect()
    }

    #[test]
    fn a_leader_a_standby_and_a_datanode_have_hadoops_beans() {
        let node = |state, leave: Option<&str>, admin| json!({ "state": state, "leave": leave, "admin_state": admin });
        let nodes = [
            node("dead", None, "NORMAL"),
            node("dead", None, "DECOMMISSION_INPROGRESS"),
            node("away", Some("restart"), "NORMAL"),
            node("away", Some("maintenance"), "IN_MAINTENANCE"),
            node("away", None, "DECOMMISSIONED"),
            node("live", None, "NORMAL"),
            node("live", Some("maintenance"), "IN_MAINTENANCE"),
            node("live", None, "DECOMMISSIONED"),
        ];
        let leader = json!({
            "group": {}, "leader": true, "safe_mode": false, "version": "1", "pool": "p", "writers": 3,
            "doomed_blocks": 2, "nodes": { "list": nodes }, "disks": { "failed": 4 },
            "space": { "capacity_len": 200, "used_len": 50, "free_len": 100 },
            "blocks": { "missing": 7, "corrupt": 8, "under_replicated": 9, "pending": 10 },
        });
        let state = page(&leader, Some("Hadoop:service=NameNode,name=FSNamesystemState"));
        assert_eq!(names(&state), ["Hadoop:service=NameNode,name=FSNamesystemState"]);
        let state = &state["beans"][0];
        assert_eq!(state["FSState"], "Operational");
        for (of, live, dead) in [("", 3, 4), ("Decom", 1, 1), ("InMaintenance", 1, 1)] {
            let counts = ["Live", "Dead"].map(|state_of| state[&format!("Num{of}{state_of}DataNodes")].clone());
            assert_eq!(counts, [json!(live), json!(dead)], "{of}: one restarts");
        }
        assert_eq!(state["NumDecommissioningDataNodes"], json!(1));
        assert_eq!((&state["CapacityRemaining"], &state["VolumeFailuresTotal"]), (&json!(100), &json!(4)));
        assert_eq!(names(&page(&leader, Some("Hadoop:service=NameNode,name=FSNamesystem*"))).len(), 2);
        assert_eq!(names(&page(&leader, None)).len(), 4);
        let standby = page(&json!({ "group": {}, "leader": false, "safe_mode": true }), Some("*:*"));
        assert_eq!(names(&standby), ["Hadoop:service=NameNode,name=NameNodeStatus"]);
        assert_eq!(standby["beans"][0]["State"], "standby");
        let disk = |failure| json!({ "failure": failure, "capacity_len": 10, "used_len": 4, "free_len": 6 });
        let datanode = json!({ "node": "n", "transfers": 1, "disks": [disk(""), disk("it hangs")] });
        let beans = &page(&datanode, None)["beans"];
        assert_eq!((&beans[0]["Capacity"], &beans[0]["NumFailedVolumes"]), (&json!(20), &json!(1)));
        assert!(names(&page(&datanode, Some("java.lang:type=Memory"))).is_empty(), "there is no JVM");
    }
}
