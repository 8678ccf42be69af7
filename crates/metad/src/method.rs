//! A row of the door's table: a method, who may call it of which server, its entry in the audit log, and its handler.

use crate::answer::Answering;
use crate::visit::Visit;
use rpc::Call;

/// Carries out a call that was let in.
pub(crate) type Handler = for<'a> fn(&'a Visit) -> Answering<'a>;

/// Permitted callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// Anyone who reaches the port; no user is looked up, unless callers prove who they are.
    Anyone,
    /// Who has proven nothing and shows a join token, which the handler looks at.
    Newcomer,
    /// A user under a name that can be one. Only a superuser acts for another.
    User,
    /// The user who runs the server, members of the supergroup, and those whom [`crate::rights`] names.
    Administrator,
    /// No administrator by the settings: who gets the answer can read and write all files by it.
    Superuser,
    /// A datanode. Under SIMPLE its messages identify it: the id of this store's block pool when it registers
    /// (`nodes::registration::is_foreign`), and the registration with each later message
    /// (`nodes::registration::admit`).
    Node,
    /// Another server of the group: by its certificate, or the user who runs them all from the address of a member
    /// (`admission`).
    Member,
}

/// The server that answers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Needs {
    /// The leader, while a majority confirms it: others answer with `StandbyException`.
    Leader,
    /// The leader; one that stands by has this answer of its own.
    LeaderOr(Handler),
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
    /// Of a method that changes something: whether this call only asks how things are.
    pub(crate) is_query: fn(&Call) -> bool,
    pub(crate) handler: Handler,
}

/// A call that names no paths, and is about nothing that the audit log could name.
pub(crate) const fn row(name: &'static str, who: Who, needs: Needs, audit: Audit, handler: Handler) -> Method {
    Method {
        name,
        who,
        needs,
        audit,
        paths: |_call| Vec::new(),
        subject: |_call| None,
        is_query: |_call| false,
        handler,
    }
}
