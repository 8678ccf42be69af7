//! The table of all calls to this server: each protocol, each method, who may call it of which server, and its handler.
//!
//! The rows of HDFS's ClientProtocol and of our AdminProtocol are next to their functions, in [`crate::client`] and
//! [`crate::admin`].

use super::protocol::Protocol;
use crate::answer::{Encoded, handler};
use crate::method::Audit::{Change, Never, Read};
use crate::method::Needs::{Any, Leader, LeaderOr};
use crate::method::Who::{Administrator, Anyone, Member, Newcomer, Node, User};
use crate::method::{Method, Needs, Who, row};
use crate::telemetry::RowNumber;
use crate::{admin, balancer, client, fsck, ha, joining, levada_protocol, mappings, member_messages, nodes, settings};
use hdfs::protocol;
use rpc::Call;
use std::collections::HashMap;
use std::future::ready;
use std::sync::LazyLock;
use wire::client::{
    ADD_LEASED, AddLeasedRequest, EXPLAIN_FILE, ExplainFileRequest, KEEP_PROFILE, KeepProfileRequest, LEASE_BLOCKS,
    PROFILE_OF, PUT_FILE, PutFileRequest,
};
use wire::joining::{JOIN, JOIN_PROTOCOL, JOIN_VERSION, JoinRequest, RENEW_CERTIFICATE};
use wire::meter::{METER, MeterRequest, Role};
use wire::node::{CATALOGUE, HEARTBEAT, REGISTER, RegisterRequest, SOURCES};

/// What is asked over HTTP.
pub(crate) const HTTP: &str = "http";

/// Stands for what is not listed.
const fn other(who: Who, needs: Needs) -> Method {
    row("", who, needs, Never, handler!(visit => ready(Err::<Encoded, _>(visit.call.no_such_method()))))
}

fn put_path(call: &Call) -> Vec<String> {
    call.request().map_or(Vec::new(), |request: PutFileRequest| vec![request.path])
}

fn leased_path(call: &Call) -> Vec<String> {
    call.request().map_or(Vec::new(), |request: AddLeasedRequest| vec![request.path])
}

fn explained_path(call: &Call) -> Vec<String> {
    call.request().map_or(Vec::new(), |request: ExplainFileRequest| vec![request.path])
}

fn profiled_path(call: &Call) -> Vec<String> {
    call.request().map_or(Vec::new(), |request: KeepProfileRequest| vec![request.path])
}

fn checked_path(call: &Call) -> Vec<String> {
    call.request().map_or(Vec::new(), |ask: fsck::Ask| vec![ask.path])
}

const LEVADA: &[Method] = &[
    row(
        LEASE_BLOCKS,
        User,
        Leader,
        Never,
        handler!(visit => levada_protocol::lease_blocks(visit.core(), visit.session(), visit.request()?)),
    ),
    Method {
        paths: put_path,
        ..row(
            PUT_FILE,
            User,
            Leader,
            Change,
            handler!(visit => levada_protocol::put_file(visit.core(), visit.session(), visit.request()?)),
        )
    },
    Method {
        paths: leased_path,
        ..row(
            ADD_LEASED,
            User,
            Leader,
            Change,
            handler!(visit => levada_protocol::add_leased(visit.core(), visit.session(), visit.request()?)),
        )
    },
    Method {
        paths: explained_path,
        ..row(
            EXPLAIN_FILE,
            User,
            Leader,
            Read,
            handler!(visit => levada_protocol::explain_file(visit.core(), visit.session(), visit.request()?)),
        )
    },
    // Beside the opening of the file, which is recorded.
    row(
        PROFILE_OF,
        User,
        Leader,
        Never,
        handler!(visit => levada_protocol::profile_of(visit.core(), visit.session(), visit.request()?)),
    ),
    Method {
        paths: profiled_path,
        ..row(
            KEEP_PROFILE,
            User,
            Leader,
            Change,
            handler!(visit => levada_protocol::keep_profile(visit.core(), visit.session(), visit.request()?)),
        )
    },
];

const NODES: &[Method] = &[
    Method {
        subject: |call| call.request().ok().map(|request: RegisterRequest| request.node),
        ..row(
            REGISTER,
            Node,
            LeaderOr(handler!(visit => nodes::standby::register(visit, visit.request()?))),
            Change,
            handler!(visit => nodes::register(visit, visit.request()?)),
        )
    },
    row(
        HEARTBEAT,
        Node,
        LeaderOr(handler!(visit => nodes::standby::heartbeat(visit, visit.request()?))),
        Never,
        handler!(visit => nodes::heartbeat(visit, visit.request()?)),
    ),
    row(
        CATALOGUE,
        Node,
        LeaderOr(handler!(visit => nodes::standby::catalogue(visit, visit.request()?))),
        Never,
        handler!(visit => nodes::catalogue(visit, visit.request()?)),
    ),
    row(SOURCES, Node, Leader, Never, handler!(visit => nodes::sources(visit, visit.request()?))),
    row(
        RENEW_CERTIFICATE,
        Node,
        Leader,
        Change,
        handler!(visit => joining::renew(visit.core(), &visit.call, visit.request()?)),
    ),
];

const JOINING: &[Method] = &[Method {
    subject: |call| call.request().ok().map(|request: JoinRequest| format!("{:08x}", request.number)),
    ..row(
        JOIN,
        Newcomer,
        Leader,
        Change,
        handler!(visit => joining::join(visit.core(), visit.call.peer, visit.request()?, &visit.subject)),
    )
}];

const GET_USER_MAPPINGS: &[Method] = &[
    // Everybody may ask about everybody, as in HDFS.
    row("getGroupsForUser", Anyone, Any, Read, handler!(visit => mappings::get(visit, visit.request()?))),
];

const REFRESH_USER_MAPPINGS: &[Method] = &[
    row("refreshUserToGroupsMappings", Administrator, Any, Change, handler!(visit => mappings::refresh(visit))),
    row("refreshSuperUserGroupsConfiguration", Administrator, Any, Change, handler!(visit => mappings::refresh(visit))),
];

const NAMENODE: &[Method] = &[
    row("getBlocks", Administrator, Leader, Read, handler!(visit => balancer::blocks_of(visit, visit.request()?))),
    row("versionRequest", User, Leader, Never, handler!(visit => balancer::version(visit))),
];

const HA_SERVICE: &[Method] = &[
    row("getServiceStatus", Anyone, Any, Never, handler!(visit => ha::status(visit))),
    row("monitorHealth", Administrator, Any, Never, handler!(visit => ha::health(visit))),
    row("transitionToActive", Administrator, Any, Change, handler!(visit => ha::transition(visit))),
    row("transitionToStandby", Administrator, Any, Change, handler!(visit => ha::transition(visit))),
    row("transitionToObserver", Administrator, Any, Change, handler!(visit => ha::transition(visit))),
];

const REFRESH_AUTHORIZATION_POLICY: &[Method] =
    &[row("refreshServiceAcl", Anyone, Any, Change, handler!(visit => settings::refresh_service_acl(visit)))];

const REFRESH_CALL_QUEUE: &[Method] =
    &[row("refreshCallQueue", Administrator, Any, Change, handler!(visit => settings::refresh_call_queue(visit)))];

const GENERIC_REFRESH: &[Method] =
    &[row("refresh", Administrator, Any, Change, handler!(visit => settings::refresh(visit)))];

const RECONFIGURATION: &[Method] = &[
    row("listReconfigurableProperties", Administrator, Any, Never, handler!(visit => settings::list_properties(visit))),
    row("startReconfiguration", Administrator, Any, Change, handler!(visit => settings::reconfigure(visit))),
    row("getReconfigurationStatus", Administrator, Any, Never, handler!(visit => settings::reconfigure(visit))),
];

const METERS: &[Method] = &[row(
    METER,
    Anyone,
    Any,
    Never,
    handler!(visit => ready(visit.request().map(|MeterRequest {}| host::meter::answer(Role::Metadata)))),
)];

const RAFT: &[Method] =
    &[row(wire::raft::TELL, Member, Any, Never, handler!(visit => member_messages::deliver(visit, visit.request()?)))];

const OVER_HTTP: &[Method] = &[
    // Each is recorded, as in HDFS: it reads more than any other call. Some requests are for superusers: blocks by
    // their ids, and files with missing blocks.
    Method {
        paths: checked_path,
        subject: |call| call.request().ok().and_then(|ask: fsck::Ask| ask.block_ids),
        ..row(fsck::METHOD, User, Leader, Change, handler!(visit => fsck::check(visit, visit.request()?)))
    },
];

pub(crate) static PROTOCOLS: &[Protocol] = &[
    Protocol {
        has_clients: true,
        names_operations: true,
        ..Protocol::new(protocol::CLIENT, Some(protocol::VERSION), client::ROWS, other(User, Leader))
    },
    Protocol {
        has_clients: true,
        ..Protocol::new(
            wire::client::CLIENT_PROTOCOL,
            Some(wire::client::PROTOCOL_VERSION),
            LEVADA,
            other(User, Leader),
        )
    },
    Protocol::new(wire::node::NODE_PROTOCOL, Some(wire::node::PROTOCOL_VERSION), NODES, other(Node, Any)),
    Protocol::new(JOIN_PROTOCOL, Some(JOIN_VERSION), JOINING, other(Newcomer, Any)),
    Protocol::new(
        wire::admin::ADMIN_PROTOCOL,
        Some(wire::admin::ADMIN_VERSION),
        admin::ROWS,
        other(Administrator, Any),
    ),
    Protocol::new(protocol::GET_USER_MAPPINGS, None, GET_USER_MAPPINGS, other(Anyone, Any)),
    Protocol::new(protocol::REFRESH_USER_MAPPINGS, None, REFRESH_USER_MAPPINGS, other(Anyone, Any)),
    Protocol { names_operations: true, ..Protocol::new(protocol::NAMENODE, None, NAMENODE, other(User, Leader)) },
    Protocol::new(protocol::HA_SERVICE, Some(protocol::VERSION), HA_SERVICE, other(Anyone, Any)),
    Protocol::new(protocol::REFRESH_AUTHORIZATION_POLICY, None, REFRESH_AUTHORIZATION_POLICY, other(Anyone, Any)),
    Protocol::new(protocol::REFRESH_CALL_QUEUE, None, REFRESH_CALL_QUEUE, other(Anyone, Any)),
    Protocol::new(protocol::GENERIC_REFRESH, None, GENERIC_REFRESH, other(Anyone, Any)),
    Protocol::new(protocol::RECONFIGURATION, None, RECONFIGURATION, other(Anyone, Any)),
    Protocol::new(wire::meter::METER_PROTOCOL, Some(wire::meter::PROTOCOL_VERSION), METERS, other(Anyone, Any)),
    Protocol::new(wire::raft::RAFT_PROTOCOL, Some(wire::raft::RAFT_VERSION), RAFT, other(Anyone, Any)),
    Protocol { has_reports: true, ..Protocol::new(HTTP, None, OVER_HTTP, other(Anyone, Any)) },
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
