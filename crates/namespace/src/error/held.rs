//! A file that another client has open.

/// A client wants to open a file, and cannot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub opening: Opening,
    pub path: String,
    pub client: String,
    pub client_host: String,
    pub by: Holder,
}

/// What the client wants the file for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    Create,
    Append,
    Truncate,
}

/// Who has it, or what is being done with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The client itself.
    Itself,
    Other {
        holder: String,
        host: String,
    },
    /// A recovery that began before, of a file that was opened on this host.
    Recovery {
        holder: String,
        host: String,
    },
    /// It is being cut to another length.
    Truncation,
}
