//! The PTX of the crates that a program has been linked with, by package.

use super::Ptx;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// An entry of the list of linked PTX: see [`link_ptx!`](crate::link_ptx).
#[doc(hidden)]
#[derive(Debug)]
pub struct Linked {
    package: &'static str,
    ptx: &'static Ptx,
    next: AtomicPtr<Self>,
}

/// The entry that was added last. Entries are statics and stay.
static LAST: AtomicPtr<Linked> = AtomicPtr::new(ptr::null_mut());

impl Linked {
    /// An entry that is not in the list.
    pub const fn new(package: &'static str, ptx: &'static Ptx) -> Self {
        Self { package, ptx, next: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Adds the entry to the list; called once.
    pub fn link(&'static self) {
        let mut last = LAST.load(Ordering::Acquire);
        loop {
            self.next.store(last, Ordering::Relaxed);
            let own = ptr::from_ref(self).cast_mut();
            match LAST.compare_exchange_weak(last, own, Ordering::Release, Ordering::Acquire) {
                Ok(_) => return,
                Err(other) => last = other,
            }
        }
    }
}

/// The linked PTX of a package.
pub(crate) fn of_package(package: &str) -> Option<&'static Ptx> {
    let mut next = LAST.load(Ordering::Acquire);
    // SAFETY: the list has only addresses of statics, which are never written after their store.
    while let Some(linked) = unsafe { next.as_ref() } {
        if linked.package == package {
            return Some(linked.ptx);
        }
        next = linked.next.load(Ordering::Relaxed);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    static ONE: Ptx = Ptx::new("one", &[]);
    static TWO: Ptx = Ptx::new("two", &[]);

    #[test]
    fn linked_ptx_is_found_by_the_name_of_its_package() {
        static FIRST: Linked = Linked::new("package-one", &ONE);
        static SECOND: Linked = Linked::new("package-two", &TWO);
        assert!(of_package("package-one").is_none(), "it is not linked yet");
        FIRST.link();
        SECOND.link();
        let name = |package| of_package(package).map(Ptx::name);
        assert_eq!([name("package-one"), name("package-two")], [Some("one"), Some("two")]);
        assert_eq!(name("package"), None);
    }
}
