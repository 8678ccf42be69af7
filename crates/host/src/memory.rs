//! Memory that was freed: when it goes back to the machine.
//!
//! The allocator keeps what is freed for a second and gives it back when it is next asked for some. Under load that
//! saves a third of the time in the kernel. But a server that has started and is idle does not ask, so all that its
//! start took for a moment would stay its own: a metadata server kept 18 MB of a log it had read.

use libmimalloc_sys::{mi_option_set, mi_option_t};

/// mimalloc's `purge_delay` by its place in `mi_option_t`, which is part of its stable interface; in milliseconds.
const PURGE_DELAY: mi_option_t = 15;
const PURGE_DELAY_DEFAULT: i64 = 1000;

/// For as long as this is kept, memory goes back to the machine at once.
#[derive(Debug)]
pub struct Frugal(());

/// To be called before the first thread is started. Without effect in a program with another allocator.
pub fn frugal() -> Frugal {
    set_purge_delay(0);
    Frugal(())
}

impl Drop for Frugal {
    fn drop(&mut self) {
        set_purge_delay(PURGE_DELAY_DEFAULT);
    }
}

#[expect(unsafe_code, reason = "a call of the allocator")]
fn set_purge_delay(milliseconds: i64) {
    // SAFETY: it stores one aligned word, which the allocator reads each time it frees a page. Other threads may read
    // the old value for a moment, which is as good.
    unsafe { mi_option_set(PURGE_DELAY, milliseconds) }
}
