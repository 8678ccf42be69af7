//! The rows of one protocol.

use crate::method::Method;

/// Rows of one protocol.
#[derive(Debug)]
pub(crate) struct Protocol {
    pub(crate) name: &'static str,
    /// `None`: HDFS's tools name any.
    pub(crate) version: Option<u64>,
    pub(crate) methods: &'static [Method],
    /// Stands for all that are not listed: a caller without rights in a protocol learns no more than that.
    pub(crate) other: Method,
    /// Its callers are clients, whose racks decide where they read and write.
    pub(crate) has_clients: bool,
    /// HDFS's refusal of a caller who is not a superuser ends with ` for operation x`.
    pub(crate) names_operations: bool,
    /// It is spoken over HTTP, and not over RPC: its answers are reports, in pieces.
    pub(crate) has_reports: bool,
}

impl Protocol {
    /// Without what few protocols have.
    pub(super) const fn new(
        name: &'static str,
        version: Option<u64>,
        methods: &'static [Method],
        other: Method,
    ) -> Self {
        Self { name, version, methods, other, has_clients: false, names_operations: false, has_reports: false }
    }
}
