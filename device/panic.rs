//! A panic on the GPU: the thread traps, and the launch fails with an error.
//!
//! `moye-build` compiles `core` so that a panic site is a trap and no message is ever formatted.
//! The compiler still requires a handler.

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: `trap` ends the launch; nothing runs after it.
    unsafe { core::arch::asm!("trap;", options(noreturn, nomem, nostack)) }
}
