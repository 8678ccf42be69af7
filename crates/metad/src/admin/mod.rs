//! Administration of the store: `org.levada.AdminProtocol`, for administrators. Each subject has a file.

mod datanodes;
mod examine;
mod jobs;
mod log_level;
mod meta;
pub(crate) mod placement;
mod refused;
mod repair;

use crate::answer::handler;
use crate::backup;
use crate::joining;
use crate::method::Audit::{Change, Never, Read};
use crate::method::Needs::{Any, Leader};
use crate::method::Who::{Administrator, Superuser};
use crate::method::{Method, row};
use std::future::ready;
use wire::admin::backup::RecoverFoundRequest;
use wire::admin::backup::{BACKUP_PIECE, BEGIN_BACKUP, BeginBackupRequest, LIST_FOUND, RECOVER_FOUND, RELEASE_FOUND};
use wire::admin::datanodes::{DRAIN, DrainRequest, LIST_DATANODES, MAINTENANCE, MaintenanceRequest};
use wire::admin::examine::EXAMINE;
use wire::admin::jobs::{BEGIN_BALANCE, BEGIN_DISK_BALANCE, BEGIN_SCRUB, LIST_JOBS, STOP_JOB, StopJobRequest};
use wire::admin::joining::{INVITE, InviteRequest, LIST_INVITATIONS, REVOKE, RevokeRequest, WITHDRAW, WithdrawRequest};
use wire::admin::log_level::{LogLevelRequest, SET_DATANODE_LOG_LEVEL, SET_LOG_LEVEL};
use wire::admin::meta::{ADD_MEMBER, AddMemberRequest, LIST_MEMBERS, REMOVE_MEMBER, RemoveMemberRequest};
use wire::admin::placement::{LIST_CONTAINERS, LIST_PIPELINES, UNDER_REPLICATED};
use wire::admin::repair::{HOLD_REPAIR, REPAIR_STATUS};

/// Rows of the door's table. Any member answers queries about the group itself, as far as it knows; all the rest is the
/// leader's.
pub(crate) const ROWS: &[Method] = &[
    row(LIST_MEMBERS, Administrator, Any, Never, handler!(visit => meta::list(&visit.leadership, visit.request()?))),
    Method {
        subject: |call| call.request().ok().map(|of: AddMemberRequest| format!("{} {}", of.id, of.addr)),
        ..row(ADD_MEMBER, Administrator, Any, Change, handler!(visit => meta::add(&visit.leadership, visit.request()?)))
    },
    Method {
        subject: |call| call.request().ok().map(|of: RemoveMemberRequest| of.id.to_string()),
        ..row(
            REMOVE_MEMBER,
            Administrator,
            Any,
            Change,
            handler!(visit => meta::remove(&visit.leadership, visit.request()?)),
        )
    },
    Method {
        subject: |call| call.request().ok().map(|of: LogLevelRequest| of.level),
        ..row(SET_LOG_LEVEL, Administrator, Any, Change, handler!(visit => ready(log_level::set(visit.request()?))))
    },
    Method {
        subject: |call| call.request().ok().map(|of: LogLevelRequest| of.datanode),
        ..row(
            SET_DATANODE_LOG_LEVEL,
            Administrator,
            Leader,
            Change,
            handler!(visit => log_level::set_of_datanode(visit.core(), visit.request()?)),
        )
    },
    row(
        LIST_DATANODES,
        Administrator,
        Leader,
        Read,
        handler!(visit => ready(Ok(datanodes::list(visit.core(), visit.request()?)))),
    ),
    Method {
        subject: |call| call.request().ok().map(|of: DrainRequest| of.datanode),
        ..row(DRAIN, Administrator, Leader, Change, handler!(visit => datanodes::drain(visit.core(), visit.request()?)))
    },
    Method {
        subject: |call| call.request().ok().map(|of: MaintenanceRequest| of.datanode),
        ..row(
            MAINTENANCE,
            Administrator,
            Leader,
            Change,
            handler!(visit => datanodes::maintenance(visit.core(), visit.request()?)),
        )
    },
    row(HOLD_REPAIR, Administrator, Leader, Change, handler!(visit => repair::hold(visit.core(), visit.request()?))),
    row(
        REPAIR_STATUS,
        Administrator,
        Leader,
        Read,
        handler!(visit => ready(Ok(repair::status(visit.core(), visit.request()?)))),
    ),
    Method {
        // If it is refused. Otherwise the number and the whole id are known. A new datanode has no id yet.
        subject: |call| {
            let of = call.request::<InviteRequest>().ok()?;
            Some(if of.datanode.is_empty() { "new".to_owned() } else { of.datanode })
        },
        ..row(
            INVITE,
            Superuser, // a datanode gets the keys of block tokens
            Leader,
            Change,
            handler!(visit => joining::invite(visit.core(), visit.session(), visit.request()?, &visit.subject)),
        )
    },
    row(
        LIST_INVITATIONS,
        Administrator,
        Leader,
        Read,
        handler!(visit => ready(joining::list(visit.core(), visit.request()?))),
    ),
    Method {
        subject: |call| call.request().ok().map(|of: WithdrawRequest| format!("{:08x}", of.number)),
        ..row(
            WITHDRAW,
            Administrator,
            Leader,
            Change,
            handler!(visit => joining::withdraw(visit.core(), visit.request()?)),
        )
    },
    Method {
        subject: |call| call.request().ok().map(|of: RevokeRequest| of.datanode),
        ..row(REVOKE, Administrator, Leader, Change, handler!(visit => joining::revoke(visit.core(), visit.request()?)))
    },
    row(
        LIST_PIPELINES,
        Administrator,
        Leader,
        Read,
        handler!(visit => ready(Ok(placement::pipelines(visit.core(), visit.request()?)))),
    ),
    row(
        LIST_CONTAINERS,
        Administrator,
        Leader,
        Read,
        handler!(visit => ready(Ok(placement::containers(visit.core(), visit.request()?)))),
    ),
    row(
        UNDER_REPLICATED,
        Administrator,
        Leader,
        Read,
        handler!(visit => placement::under_replicated(visit.core(), visit.request()?)),
    ),
    // It has all keys.
    row(
        BEGIN_BACKUP,
        Superuser,
        Leader,
        Change,
        handler!(visit => async {
            let BeginBackupRequest {} = visit.request()?;
            backup::begin(visit.core()).await
        }),
    ),
    row(BACKUP_PIECE, Superuser, Leader, Never, handler!(visit => backup::piece(visit.core(), visit.request()?))),
    row(
        LIST_FOUND,
        Administrator,
        Leader,
        Read,
        handler!(visit => ready(Ok(backup::found(visit.core(), visit.session(), visit.request()?)))),
    ),
    Method {
        subject: |call| call.request().ok().map(|of: RecoverFoundRequest| of.block.to_string()),
        ..row(
            RECOVER_FOUND,
            Superuser, // its answer has a token to read the block
            Leader,
            Change,
            handler!(visit => backup::recover_found(visit.core(), visit.request()?)),
        )
    },
    row(
        RELEASE_FOUND,
        Administrator,
        Leader,
        Change,
        handler!(visit => backup::release_found(visit.core(), visit.request()?)),
    ),
    row(
        EXAMINE,
        Administrator,
        Leader,
        Read,
        handler!(visit => ready(Ok(examine::examine(visit.core(), visit.request()?)))),
    ),
    row(
        LIST_JOBS,
        Administrator,
        Leader,
        Read,
        handler!(visit => ready(Ok(jobs::list(visit.core(), visit.request()?)))),
    ),
    row(BEGIN_SCRUB, Administrator, Leader, Change, handler!(visit => jobs::scrub(visit.core(), visit.request()?))),
    row(
        BEGIN_DISK_BALANCE,
        Administrator,
        Leader,
        Change,
        handler!(visit => jobs::balance_disks(visit.core(), visit.request()?)),
    ),
    row(BEGIN_BALANCE, Administrator, Leader, Change, handler!(visit => jobs::balance(visit.core(), visit.request()?))),
    Method {
        subject: |call| call.request().ok().map(|of: StopJobRequest| of.id.to_string()),
        ..row(STOP_JOB, Administrator, Leader, Change, handler!(visit => jobs::stop(visit.core(), visit.request()?)))
    },
];
