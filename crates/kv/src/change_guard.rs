//! Which stores this thread changes: a second change of the same store would wait for the first for ever.

use std::cell::RefCell;

thread_local! {
    static HELD: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// This thread has a change of the store. It belongs to the thread, like the lock beside it.
pub(crate) struct Held {
    store: usize,
    _not_send: std::marker::PhantomData<*const ()>,
}

impl Held {
    /// See [`Held::refuse`].
    pub(crate) fn take(store: usize) -> Self {
        HELD.with_borrow_mut(|held| {
            held.push(store);
        });
        Self { store, _not_send: std::marker::PhantomData }
    }

    /// Panics if this thread has a change of the store, and would now wait for itself.
    pub(crate) fn refuse(store: usize) {
        HELD.with_borrow(|held| {
            assert!(!held.contains(&store), "this thread has a change of this store already; end that first");
        });
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        HELD.with_borrow_mut(|held| {
            if let Some(at) = held.iter().rposition(|store| *store == self.store) {
                held.swap_remove(at);
            }
        });
    }
}
