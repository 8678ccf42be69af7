//! What the server of a session is.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Leads { term: u64 },
    Standby,
}

impl Standing {
    pub(super) fn of(standby: bool, term: u64) -> Self {
        if standby { Self::Standby } else { Self::Leads { term } }
    }
}
