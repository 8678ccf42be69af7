//! What tells the series of one metric apart.

/// Names and values of a series' labels.
pub(crate) type Labels = Vec<(&'static str, String)>;
