//! What can be called, by whom, of whom, and what is written down of it: a row of the table.

use rpc::Call;

/// HDFS says `Superuser privilege is required for operation x` where it is its name node that refuses.
pub(crate) const SUPERUSER: Who = Who::Superuser { names_operation: true };

/// Who may call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// Whoever reaches the port. Nobody is looked up.
    Anyone,
    /// A user under a name that can be one. Only a superuser acts for another.
    User,
    /// The user who runs the server, and members of the supergroup. HDFS names the operation in its refusal, or not.
    Superuser { names_operation: bool },
    /// A datanode. What SIMPLE can prove stands in its messages: the id of this store's block pool when it registers
    /// (`nodes::registration::is_foreign`), and the registration with each message after that (`nodes::registration::admit`).
    Node,
    /// Another server of the group: the user who runs them all, from the address of a member (`admission`).
    Member,
}

/// Of whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// The leader, as a majority confirms it: others say that they stand by.
    Leader,
    /// The leader; one that stands by has an answer of its own, the one beside the handler in its protocol.
    LeaderOrStandby,
    /// Any server, of itself.
    Any,
}

/// What the audit log has of it. What was denied it has in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audit {
    /// Each call.
    Change,
    /// Each call where reads are recorded.
    Read,
    /// None: such calls come all the time, and are about no file.
    Never,
}

/// A row of the table.
#[derive(Debug)]
pub(crate) struct Method {
    pub(crate) name: &'static str,
    pub(crate) who: Who,
    pub(crate) needs: Needs,
    pub(crate) audit: Audit,
    /// Fields of the request that are paths.
    pub(crate) paths: fn(&Call) -> Vec<String>,
    /// What else it is about: a datanode, a member, a job.
    pub(crate) subject: fn(&Call) -> Option<String>,
}

pub(crate) fn no_paths(_call: &Call) -> Vec<String> {
    Vec::new()
}

pub(crate) fn no_subject(_call: &Call) -> Option<String> {
    None
}
