//! Rows that a test has damaged. Of those nothing is asserted that holds of all others: a call on them is answered with
//! an error, if it must.

use std::cell::Cell;

thread_local! {
    static IS_EXPECTED: Cell<bool> = const { Cell::new(false) };
}

/// From here on rows that this thread looks at may contradict each other.
pub fn expect() {
    IS_EXPECTED.set(true);
}

/// To be asked by each assertion that compares rows.
pub(crate) fn is_expected() -> bool {
    IS_EXPECTED.get()
}
