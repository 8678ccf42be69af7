//! All that can be called here: each protocol, each method, who may call it and of whom.
//!
//! The rows of HDFS's ClientProtocol stand beside the functions that answer them, in [`crate::client`].

use super::protocol::Protocol;
use crate::method::Audit::{Change, Never, Read};
use crate::method::Needs::{Any, Leader, LeaderOrStandby};
use crate::method::Who::{Anyone, Member, Node, User};
use crate::method::{Audit, Method, Needs, SUPERUSER, Who, no_paths, no_subject};
use crate::telemetry::RowNumber;
use crate::{admin, balancer, client, ha, levada_protocol, mappings, member_messages, meter, nodes, settings, standby};
use hdfs::protocol;
use rpc::Call;
use std::collections::HashMap;
use std::sync::LazyLock;
use wire::admin::{datanodes, jobs, meta, placement};
use wire::client::{ADD_LEASED, AddLeasedRequest, LEASE_BLOCKS, PUT_FILE, PutFileRequest};
use wire::node::RegisterRequest;

/// As the small protocols beside it say.
const ADMINISTRATOR: Who = Who::Superuser { names_operation: false };

const fn row(name: &'static str, who: Who, needs: Needs, audit: Audit) -> Method {
    Method { name, who, needs, audit, paths: no_paths, subject: no_subject }
}

/// Stands for what is not listed: who may not call anything of a protocol is told no more than that.
const fn other(who: Who, needs: Needs) -> Method {
    row("", who, needs, Never)
}

fn datanode(call: &Call) -> Option<String> {
    call.request().ok().map(|request: RegisterRequest| request.node)
}

fn drained(call: &Call) -> Option<String> {
    call.request().ok().map(|request: datanodes::DrainRequest| request.datanode)
}

fn added_member(call: &Call) -> Option<String> {
    call.request().ok().map(|request: meta::AddMemberRequest| format!("{} {}", request.id, request.addr))
}

fn removed_member(call: &Call) -> Option<String> {
    call.request().ok().map(|request: meta::RemoveMemberRequest| request.id.to_string())
}

fn stopped_job(call: &Call) -> Option<String> {
    call.request().ok().map(|request: jobs::StopJobRequest| request.id.to_string())
}

fn put_path(call: &Call) -> Vec<String> {
    call.request().map_or(Vec::new(), |request: PutFileRequest| vec![request.path])
}

fn leased_path(call: &Call) -> Vec<String> {
    call.request().map_or(Vec::new(), |request: AddLeasedRequest| vec![request.path])
}

pub(crate) static PROTOCOLS: &[Protocol] = &[
    Protocol {
        name: protocol::CLIENT,
        version: Some(protocol::VERSION),
        methods: client::ROWS,
        other: other(User, Leader),
        has_clients: true,
        handler: |visit| Box::pin(client::call(visit.core(), visit.session(), &visit.call.method, &visit.call.body)),
        standby: Some(|visit| Box::pin(standby::call(visit))),
    },
    Protocol {
        name: wire::client::CLIENT_PROTOCOL,
        version: Some(wire::client::PROTOCOL_VERSION),
        methods: &[
            row(LEASE_BLOCKS, User, Leader, Never),
            Method { paths: put_path, ..row(PUT_FILE, User, Leader, Change) },
            Method { paths: leased_path, ..row(ADD_LEASED, User, Leader, Change) },
        ],
        other: other(User, Leader),
        has_clients: true,
        handler: |visit| Box::pin(levada_protocol::call(visit.core(), visit.session(), &visit.call)),
        standby: None,
    },
    Protocol {
        name: wire::node::NODE_PROTOCOL,
        version: Some(wire::node::PROTOCOL_VERSION),
        methods: &[
            Method { subject: datanode, ..row(wire::node::REGISTER, Node, LeaderOrStandby, Change) },
            row(wire::node::HEARTBEAT, Node, LeaderOrStandby, Never),
            row(wire::node::CATALOGUE, Node, LeaderOrStandby, Never),
        ],
        other: other(Node, LeaderOrStandby),
        has_clients: false,
        handler: |visit| Box::pin(nodes::call(visit.core(), &visit.seat, &visit.call)),
        standby: Some(|visit| Box::pin(async move { nodes::stand_by(&visit.seat, &visit.call) })),
    },
    Protocol {
        name: wire::admin::ADMIN_PROTOCOL,
        version: Some(wire::admin::ADMIN_VERSION),
        methods: &[
            row(meta::LIST_MEMBERS, ADMINISTRATOR, Any, Never),
            Method { subject: added_member, ..row(meta::ADD_MEMBER, ADMINISTRATOR, Any, Change) },
            Method { subject: removed_member, ..row(meta::REMOVE_MEMBER, ADMINISTRATOR, Any, Change) },
            row(datanodes::LIST_DATANODES, ADMINISTRATOR, Leader, Read),
            Method { subject: drained, ..row(datanodes::DRAIN, ADMINISTRATOR, Leader, Change) },
            row(placement::LIST_PIPELINES, ADMINISTRATOR, Leader, Read),
            row(placement::LIST_CONTAINERS, ADMINISTRATOR, Leader, Read),
            row(placement::UNDER_REPLICATED, ADMINISTRATOR, Leader, Read),
            row(jobs::LIST_JOBS, ADMINISTRATOR, Leader, Read),
            row(jobs::BEGIN_SCRUB, ADMINISTRATOR, Leader, Change),
            row(jobs::BEGIN_DISK_BALANCE, ADMINISTRATOR, Leader, Change),
            row(jobs::BEGIN_BALANCE, ADMINISTRATOR, Leader, Change),
            Method { subject: stopped_job, ..row(jobs::STOP_JOB, ADMINISTRATOR, Leader, Change) },
        ],
        other: other(ADMINISTRATOR, Any),
        has_clients: false,
        handler: |visit| Box::pin(admin::call(visit)),
        standby: None,
    },
    Protocol {
        name: protocol::GET_USER_MAPPINGS,
        version: None,
        // Everybody may ask about everybody, as in HDFS.
        methods: &[row("getGroupsForUser", Anyone, Any, Read)],
        other: other(Anyone, Any),
        has_clients: false,
        handler: |visit| Box::pin(mappings::get(&visit.seat, &visit.call)),
        standby: None,
    },
    Protocol {
        name: protocol::REFRESH_USER_MAPPINGS,
        version: None,
        methods: &[
            row("refreshUserToGroupsMappings", ADMINISTRATOR, Any, Change),
            row("refreshSuperUserGroupsConfiguration", ADMINISTRATOR, Any, Change),
        ],
        other: other(Anyone, Any),
        has_clients: false,
        handler: |visit| Box::pin(async move { mappings::refresh(&visit.seat, &visit.call) }),
        standby: None,
    },
    Protocol {
        name: protocol::NAMENODE,
        version: None,
        methods: &[row("getBlocks", SUPERUSER, Leader, Read), row("versionRequest", User, Leader, Never)],
        other: other(User, Leader),
        has_clients: false,
        handler: |visit| Box::pin(balancer::call(visit.core(), &visit.call)),
        standby: None,
    },
    Protocol {
        name: protocol::HA_SERVICE,
        version: Some(protocol::VERSION),
        methods: &[
            row("getServiceStatus", Anyone, Any, Never),
            row("monitorHealth", ADMINISTRATOR, Any, Never),
            row("transitionToActive", ADMINISTRATOR, Any, Change),
            row("transitionToStandby", ADMINISTRATOR, Any, Change),
            row("transitionToObserver", ADMINISTRATOR, Any, Change),
        ],
        other: other(Anyone, Any),
        has_clients: false,
        handler: |visit| Box::pin(ha::call(&visit.seat, &visit.call)),
        standby: None,
    },
    Protocol {
        name: protocol::REFRESH_AUTHORIZATION_POLICY,
        version: None,
        methods: &[row("refreshServiceAcl", Anyone, Any, Change)],
        other: other(Anyone, Any),
        has_clients: false,
        handler: |visit| Box::pin(async move { settings::call(&visit.call) }),
        standby: None,
    },
    Protocol {
        name: protocol::REFRESH_CALL_QUEUE,
        version: None,
        methods: &[row("refreshCallQueue", ADMINISTRATOR, Any, Change)],
        other: other(Anyone, Any),
        has_clients: false,
        handler: |visit| Box::pin(async move { settings::call(&visit.call) }),
        standby: None,
    },
    Protocol {
        name: protocol::GENERIC_REFRESH,
        version: None,
        methods: &[row("refresh", ADMINISTRATOR, Any, Change)],
        other: other(Anyone, Any),
        has_clients: false,
        handler: |visit| Box::pin(async move { settings::call(&visit.call) }),
        standby: None,
    },
    Protocol {
        name: protocol::RECONFIGURATION,
        version: None,
        methods: &[
            row("listReconfigurableProperties", ADMINISTRATOR, Any, Never),
            row("startReconfiguration", ADMINISTRATOR, Any, Change),
            row("getReconfigurationStatus", ADMINISTRATOR, Any, Never),
        ],
        other: other(Anyone, Any),
        has_clients: false,
        handler: |visit| Box::pin(async move { settings::call(&visit.call) }),
        standby: None,
    },
    Protocol {
        name: wire::meter::METER_PROTOCOL,
        version: Some(wire::meter::PROTOCOL_VERSION),
        methods: &[row(wire::meter::METER, Anyone, Any, Never)],
        other: other(Anyone, Any),
        has_clients: false,
        handler: |visit| Box::pin(async move { meter::call(&visit.call) }),
        standby: None,
    },
    Protocol {
        name: wire::raft::RAFT_PROTOCOL,
        version: Some(wire::raft::RAFT_VERSION),
        methods: &[row(wire::raft::TELL, Member, Any, Never)],
        other: other(Anyone, Any),
        has_clients: false,
        handler: |visit| Box::pin(member_messages::answer(&visit.seat, &visit.call)),
        standby: None,
    },
];

/// Protocol and method of each row, in the order of their numbers; of each protocol the last one, `other`, stands for
/// what is not listed.
pub(crate) fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    PROTOCOLS.iter().flat_map(|protocol| {
        let listed = protocol.methods.iter().map(|method| method.name);
        listed.chain(["other"]).map(|method| (protocol.name, method))
    })
}

/// The number of the row for what is not listed, and the listed ones with theirs.
type Rows = (RowNumber, HashMap<&'static str, (&'static Method, RowNumber)>);

static BY_NAME: LazyLock<HashMap<&'static str, (&'static Protocol, Rows)>> = LazyLock::new(|| {
    let mut count = 0;
    let rows = |protocol: &'static Protocol| {
        let numbered = |(at, method): (usize, &'static Method)| (method.name, (method, RowNumber(count + at)));
        let listed = protocol.methods.iter().enumerate().map(numbered).collect();
        count += protocol.methods.len() + 1;
        (RowNumber(count - 1), listed)
    };
    let mut by_name = HashMap::new();
    by_name
        .extend(PROTOCOLS.iter().map(|protocol| protocol.name).zip(PROTOCOLS.iter().zip(PROTOCOLS.iter().map(rows))));
    by_name
});

/// The row of a call, and its number. `None`: no such protocol is spoken here.
pub(crate) fn find(protocol: &str, method: &str) -> Option<(&'static Protocol, &'static Method, RowNumber)> {
    let (protocol, (other, rows)) = BY_NAME.get(protocol)?;
    let (method, number) = rows.get(method).copied().unwrap_or((&protocol.other, *other));
    Some((protocol, method, number))
}
