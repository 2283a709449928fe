//! Stack overflow of threads: a fault, if the host can identify the signal.
//!
//! Every intrinsic begins with [`current`](super::context::current), which checks that [`RESERVE`]
//! bytes are left, so that an overflow never interrupts the simulator's own work. Between
//! intrinsics, a thread hits the guard page below the stack: the signal handler then makes the
//! coroutine return with the fault recorded instead of ending the process. Without such a handler
//! (hosts other than Linux on x86-64), the signal ends the process.

/// Bytes of stack that an intrinsic may use, including the unwinding after a fault.
pub(crate) const RESERVE: usize = 16 * 1024;

/// An address near the end of the caller's stack.
#[inline(always)]
pub(crate) fn stack_pointer() -> usize {
    let here = 0u8;
    std::ptr::from_ref(&here).addr()
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(crate) use guard::{SignalStack, Watched, install};

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
pub(crate) use unguarded::{SignalStack, Watched, install};

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod unguarded {
    /// This host has no handler.
    pub(crate) struct Watched;

    impl Watched {
        pub(crate) fn new<T>(_: &T, _: usize) -> Self {
            Self
        }
    }

    /// Without a handler, no signal needs a stack.
    pub(crate) struct SignalStack;

    impl SignalStack {
        pub(crate) fn of_this_thread() -> Self {
            Self
        }
    }

    pub(crate) fn install() {}
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod guard {
    use crate::block::context::{RawFault, running};
    use crate::fault::FaultKind;
    use corosensei::Coroutine;
    use corosensei::stack::Stack;
    use corosensei::trap::{CoroutineTrapHandler, TrapHandlerRegs};
    use std::cell::Cell;
    use std::ffi::{c_int, c_void};
    use std::marker::PhantomData;
    use std::mem::MaybeUninit;
    use std::ptr;
    use std::sync::{Once, OnceLock};

    /// The coroutine that runs on this OS thread, and the start address of its guard page.
    #[derive(Clone, Copy)]
    struct Running {
        trap: CoroutineTrapHandler<()>,
        guard: usize,
    }

    thread_local! {
        static RUNNING: Cell<Option<Running>> = const { Cell::new(None) };
    }

    /// While it lives, an overflow of a coroutine's stack is a fault of its thread.
    pub(crate) struct Watched;

    impl Watched {
        /// `limit` is the lowest address of the coroutine's stack, guard page included.
        pub(crate) fn new<I, Y, S: Stack>(coroutine: &Coroutine<I, Y, (), S>, limit: usize) -> Self {
            RUNNING.set(Some(Running { trap: coroutine.trap_handler(), guard: limit }));
            Self
        }
    }

    impl Drop for Watched {
        fn drop(&mut self) {
            RUNNING.set(None);
        }
    }

    /// A signal stack for this OS thread if it has none: `std` allocates one only in a program that
    /// begins with Rust's `main`, not in a Python extension.
    pub(crate) struct SignalStack {
        memory: Option<Box<[u8]>>,
        /// It belongs to the thread that created it.
        _thread: PhantomData<*const ()>,
    }

    impl SignalStack {
        const BYTES: usize = 64 * 1024;

        pub(crate) fn of_this_thread() -> Self {
            let mut present = MaybeUninit::<libc::stack_t>::zeroed();
            // SAFETY: with a null pointer, the call only writes the current stack to the local.
            let is_missing = unsafe {
                libc::sigaltstack(ptr::null(), present.as_mut_ptr()) == 0
                    && present.assume_init().ss_flags & libc::SS_DISABLE != 0
            };
            let mut memory = is_missing.then(|| vec![0; Self::BYTES].into_boxed_slice());
            if let Some(memory) = &mut memory {
                let stack =
                    libc::stack_t { ss_sp: memory.as_mut_ptr().cast(), ss_flags: 0, ss_size: Self::BYTES };
                // SAFETY: the memory lives until `drop`, on this thread, removes it.
                unsafe { libc::sigaltstack(&raw const stack, ptr::null_mut()) };
            }
            Self { memory, _thread: PhantomData }
        }
    }

    impl Drop for SignalStack {
        fn drop(&mut self) {
            if self.memory.is_some() {
                let none = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
                // SAFETY: no handler runs on the stack: this thread is here.
                unsafe { libc::sigaltstack(&raw const none, ptr::null_mut()) };
            }
        }
    }

    static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();

    /// Installs, once per process, a handler for the guard pages' signal. It forwards signals that
    /// are not the simulator's.
    pub(crate) fn install() {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            // SAFETY: a zeroed `sigaction` is valid; the handler is async-signal-safe where it acts
            // (it reads a thread-local cell and writes to the coroutine's own stack), and the
            // previous handler is stored before the new one can be called.
            unsafe {
                let mut previous = MaybeUninit::<libc::sigaction>::zeroed();
                if libc::sigaction(libc::SIGSEGV, ptr::null(), previous.as_mut_ptr()) != 0 {
                    return;
                }
                PREVIOUS.get_or_init(|| previous.assume_init());
                let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
                action.sa_sigaction =
                    handle as unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as usize;
                // On the thread's `SignalStack`: the coroutine's stack is full.
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
                libc::sigemptyset(&raw mut action.sa_mask);
                libc::sigaction(libc::SIGSEGV, &raw const action, ptr::null_mut());
            }
        });
    }

    /// # Safety
    /// Only the operating system's kernel calls it, for a SIGSEGV.
    unsafe extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
        /// A guard is one page of the architecture's smallest size.
        const PAGE: usize = 4096;
        // SAFETY: with SA_SIGINFO the OS passes both; the address is that of the access.
        let (address, interrupted) =
            unsafe { ((*info).si_addr().addr(), &mut *context.cast::<libc::ucontext_t>()) };
        let registers = &mut interrupted.uc_mcontext.gregs;
        // A panicking thread has increased the panic count and would never decrease it.
        if let Some(running) = RUNNING.get()
            && !std::thread::panicking()
            && (running.guard..running.guard + PAGE).contains(&address)
            && running.trap.stack_ptr_in_bounds(registers[libc::REG_RSP as usize] as usize)
        {
            RUNNING.set(None);
            // SAFETY: the coroutine runs, its stack pointer is in its stack, and the registers get
            // the values that the call requires. The thread was in the kernel's code, which shares
            // only the simulator's global memory: the stack reserve keeps every intrinsic from
            // being interrupted.
            let TrapHandlerRegs { rip, rsp, rbp, rdi, rsi } =
                unsafe { running.trap.setup_trap_handler(overrun) };
            for (register, value) in [
                (libc::REG_RIP, rip),
                (libc::REG_RSP, rsp),
                (libc::REG_RBP, rbp),
                (libc::REG_RDI, rdi),
                (libc::REG_RSI, rsi),
            ] {
                registers[register as usize] = value as i64;
            }
            return;
        }
        // SAFETY: the process had this handler before, and the signal is meant for it.
        unsafe { pass_on(signal, info, context) };
    }

    /// The coroutine runs this function in place of its remaining code.
    fn overrun() {
        let Some(block) = running() else { return };
        let thread = block.thread_index.get();
        block.record(RawFault {
            thread,
            location: None,
            kind: FaultKind::StackOverrun { bytes: block.stack_bytes() },
        });
    }

    /// # Safety
    /// Same contract as [`handle`].
    unsafe fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
        let default = libc::SIG_DFL;
        let action = PREVIOUS.get();
        // SAFETY: the handler is called as its flags require; without one, the default action
        // happens when the access is repeated.
        unsafe {
            match action {
                Some(action) if action.sa_sigaction != default && action.sa_sigaction != libc::SIG_IGN => {
                    if action.sa_flags & libc::SA_SIGINFO != 0 {
                        type Handler = unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
                        std::mem::transmute::<usize, Handler>(action.sa_sigaction)(signal, info, context);
                    } else {
                        type Handler = unsafe extern "C" fn(c_int);
                        std::mem::transmute::<usize, Handler>(action.sa_sigaction)(signal);
                    }
                }
                _ => {
                    let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
                    action.sa_sigaction = default;
                    libc::sigaction(signal, &raw const action, ptr::null_mut());
                }
            }
        }
    }
}
