//! The panics that reach the program's own panic hook. The only test of its process, as a hook
//! belongs to the whole process.

use moye_sim::{GlobalMemory, Launch};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static HEARD: AtomicUsize = AtomicUsize::new(0);

#[test]
fn a_hook_from_before_the_first_launch_hears_of_the_hosts_panics_and_not_of_kernels() {
    std::panic::set_hook(Box::new(|_| {
        HEARD.fetch_add(1, Relaxed);
    }));
    let launch = || Launch::new("k", 1, 1, &GlobalMemory::new()).run(&|| panic!("in a kernel")).unwrap_err();
    let text = launch().to_string();
    assert!(text.ends_with("the kernel panicked: in a kernel"), "{text}");
    assert_eq!(HEARD.load(Relaxed), 0, "a kernel's panic is in the fault and nowhere else");
    std::panic::catch_unwind(|| panic!("on the host")).unwrap_err();
    assert_eq!(HEARD.load(Relaxed), 1, "the host's panics reach the hook as before");
    launch();
    assert_eq!(HEARD.load(Relaxed), 1, "the hook is installed once");
}
