//! Which stores this thread looks at: a second look at the same store could wait for itself, which must not be left to chance.

use std::cell::RefCell;

thread_local! {
    static HELD: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// This thread has a view or a change of the store. It belongs to the thread, like the locks beside it.
pub(crate) struct Held {
    store: usize,
    _not_send: std::marker::PhantomData<*const ()>,
}

impl Held {
    /// Panics if this thread has the store already. With the lock of the standard library it would hang, but only when
    /// another thread happened to be waiting to write.
    pub(crate) fn take(store: usize) -> Self {
        HELD.with_borrow_mut(|held| {
            assert!(!held.contains(&store), "this thread has a view or a change of this store already; end that first");
            held.push(store);
        });
        Self { store, _not_send: std::marker::PhantomData }
    }

    /// Panics if this thread has the store, and would now wait for itself.
    pub(crate) fn refuse(store: usize) {
        HELD.with_borrow(|held| {
            assert!(
                !held.contains(&store),
                "this thread has a view or a change of this store; end that before a flush"
            );
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
