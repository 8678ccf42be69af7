//! Who asks.

/// Who asks. The leader looks groups and the superuser up; copies of the state do not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub user: String,
    pub groups: Vec<String>,
    /// False: the user database did not answer. Then only what everybody may do in whatever group is granted, and
    /// nothing is denied for good.
    pub groups_known: bool,
    /// The user that runs the server, or a member of its supergroup: all checks are skipped.
    pub superuser: bool,
}
types::record!(Caller { 0: user, 1: groups, 2: groups_known, 3: superuser });

impl Caller {
    /// The server itself, when no client asked.
    pub fn system() -> Self {
        Self { user: "levada".into(), groups: Vec::new(), groups_known: true, superuser: true }
    }
}
