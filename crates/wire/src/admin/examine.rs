//! What a doctor asks of a store: clocks, versions, age.

pub use crate::proto::{ExamineRequest, ExamineResponse, ServerVersion};

pub const EXAMINE: &str = "examine";
