//! What a panic does on the GPU: the thread traps, and the launch fails with an error.
//!
//! `moye-build` compiles `core` so that a panic site is a trap by itself and no message is ever formatted. The
//! compiler still wants a handler to be there.

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: `trap` ends the launch; nothing runs after it.
    unsafe { core::arch::asm!("trap;", options(noreturn, nomem, nostack)) }
}
