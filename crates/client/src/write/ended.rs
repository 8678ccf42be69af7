//! How a file ends.

/// What a file is to be called at its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name<'a> {
    pub(crate) path: &'a str,
    pub(crate) overwrite: bool,
}

/// A file that is complete.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) file: u64,
    /// It was small, and was put under the name that it is to have.
    pub(crate) has_name: bool,
}
