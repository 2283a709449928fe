//! NCCL, opened when a group first needs it: one communicator for each rank of this caller.
//!
//! The bindings are separate from those of `cudarc` 0.19, whose loader panics without the library
//! and tries eighteen names, but not `libnccl.so.2`, which NCCL's packages and PyTorch's install.
//!
//! Waits for other ranks end by the group's timeout. The group's communicators are non-blocking:
//! their calls return at once, and [`Communicators::settle`] polls them. Adopted communicators may
//! be blocking, so their calls are on a thread, which is left behind after the timeout; so is
//! `ncclCommAbort`. `ncclGetUniqueId`, and `ncclCommUserRank` and `ncclCommCount` of adopted
//! communicators, wait for no rank and have no timeout.

use crate::collectives::{Collective, Issue};
use crate::exchange::{detail, error};
use crate::group::Group;
use moye_runtime::{Result, Stream};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The file names that are tried.
const FILES: [&str; 2] = ["libnccl.so.2", "libnccl.so"];
/// `ncclSum`.
const SUM: c_int = 0;
/// `ncclRemoteError`: another process has ended.
const REMOTE_ERROR: c_int = 6;
/// `ncclInProgress`.
const IN_PROGRESS: c_int = 7;

/// `ncclUniqueId`.
#[repr(C)]
#[derive(Clone, Copy)]
struct UniqueId([u8; 128]);

/// The beginning of `ncclConfig_t`, which later versions complete by their defaults.
#[repr(C)]
struct Config {
    size: usize,
    magic: c_uint,
    version: c_uint,
    blocking: c_int,
    /// The next field of later versions: undefined.
    cluster: c_int,
}

/// Non-blocking communicators.
const NON_BLOCKING: Config = Config {
    size: size_of::<Config>(),
    magic: 0xcafe_beef,
    version: 21_400,
    blocking: 0,
    cluster: c_int::MIN,
};

macro_rules! functions {
    ($($field:ident $symbol:literal ($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions of the library.
        struct Library {
            $($field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            _library: libloading::Library,
        }
        impl Library {
            fn of(library: libloading::Library) -> std::result::Result<Self, libloading::Error> {
                // SAFETY: the types are those of nccl.h, the same since NCCL 2.14.
                unsafe { Ok(Self { $($field: *library.get($symbol)?,)* _library: library }) }
            }
        }
    };
}
functions! {
    version c"ncclGetVersion" (*mut c_int) -> c_int;
    unique_id c"ncclGetUniqueId" (*mut UniqueId) -> c_int;
    init_rank c"ncclCommInitRankConfig" (*mut *mut c_void, c_int, UniqueId, c_int, *const Config) -> c_int;
    state c"ncclCommGetAsyncError" (*mut c_void, *mut c_int) -> c_int;
    count c"ncclCommCount" (*mut c_void, *mut c_int) -> c_int;
    rank c"ncclCommUserRank" (*mut c_void, *mut c_int) -> c_int;
    finalize c"ncclCommFinalize" (*mut c_void) -> c_int;
    destroy c"ncclCommDestroy" (*mut c_void) -> c_int;
    abort c"ncclCommAbort" (*mut c_void) -> c_int;
    start c"ncclGroupStart" () -> c_int;
    end c"ncclGroupEnd" () -> c_int;
    text c"ncclGetErrorString" (c_int) -> *const c_char;
    all_reduce c"ncclAllReduce" (u64, u64, usize, c_int, c_int, *mut c_void, *mut c_void) -> c_int;
    reduce c"ncclReduce" (u64, u64, usize, c_int, c_int, c_int, *mut c_void, *mut c_void) -> c_int;
    reduce_scatter c"ncclReduceScatter" (u64, u64, usize, c_int, c_int, *mut c_void, *mut c_void) -> c_int;
    all_gather c"ncclAllGather" (u64, u64, usize, c_int, *mut c_void, *mut c_void) -> c_int;
    broadcast c"ncclBroadcast" (u64, u64, usize, c_int, c_int, *mut c_void, *mut c_void) -> c_int;
}

/// The library, or the error of the loader.
fn library() -> Result<&'static Library> {
    static LIBRARY: OnceLock<std::result::Result<Library, String>> = OnceLock::new();
    let opened = LIBRARY.get_or_init(|| {
        let mut reasons = Vec::new();
        for file in FILES {
            // SAFETY: NCCL's initialisers have no conditions.
            match unsafe { libloading::Library::new(file) }.and_then(Library::of) {
                Ok(library) => return Ok(library),
                Err(reason) => {
                    // The loader's message names the file.
                    let detail = std::error::Error::source(&reason).map(ToString::to_string);
                    reasons.push(detail.unwrap_or_else(|| format!("{file}: {reason}")));
                }
            }
        }
        Err(format!(
            "cannot open NCCL ({}); install version 2.14 or later, or put its folder into LD_LIBRARY_PATH",
            reasons.join("; ")
        ))
    });
    opened.as_ref().map_err(|reason| error(reason.as_str()))
}

/// The version of NCCL that groups use, such as 22809 for 2.28.9.
///
/// # Errors
/// The library is not found; the message lists its names.
pub fn nccl_version() -> Result<u32> {
    let library = library()?;
    let mut version = 0;
    // SAFETY: the pointer is writable.
    check(library, "ncclGetVersion", unsafe { (library.version)(&mut version) })?;
    Ok(version.unsigned_abs())
}

/// The error of a call; a call that is in progress has none yet.
fn check(library: &Library, call: &str, code: c_int) -> Result<()> {
    if code == 0 || code == IN_PROGRESS {
        return Ok(());
    }
    // SAFETY: NCCL returns a string that lives as long as the library.
    let text = unsafe { CStr::from_ptr((library.text)(code)) };
    Err(error(format!("{call}: {} (NCCL_DEBUG=WARN says more)", text.to_string_lossy())))
}

/// A communicator, for any thread.
#[derive(Clone, Copy)]
struct Communicator(*mut c_void);
// SAFETY: any thread may use NCCL's communicators, one at a time: the group's lock ensures that.
unsafe impl Send for Communicator {}
// SAFETY: the group's lock allows one thread at a time.
unsafe impl Sync for Communicator {}

/// A collective of one communicator on one stream.
struct Call {
    collective: Collective,
    count: usize,
    communicator: Communicator,
    /// Keeps the stream alive.
    stream: Stream,
    from: u64,
    to: u64,
}

impl Call {
    /// # Safety
    /// The communicator is alive. `from` and `to` have the elements, of NCCL's type `data`, and no
    /// other work uses them meanwhile.
    unsafe fn issue(&self, library: &Library, data: c_int) -> Result<()> {
        let Self { collective, count, communicator: Communicator(communicator), from, to, .. } = *self;
        let stream = self.stream.raw_handle()?;
        // SAFETY: the caller guarantees all of it.
        let code = unsafe {
            match collective {
                Collective::AllReduce => {
                    (library.all_reduce)(from, to, count, data, SUM, communicator, stream)
                }
                Collective::Reduce(root) => {
                    (library.reduce)(from, to, count, data, SUM, root as c_int, communicator, stream)
                }
                Collective::ReduceScatter => {
                    (library.reduce_scatter)(from, to, count, data, SUM, communicator, stream)
                }
                Collective::AllGather => (library.all_gather)(from, to, count, data, communicator, stream),
                Collective::Broadcast(root) => {
                    (library.broadcast)(from, to, count, data, root as c_int, communicator, stream)
                }
            }
        };
        check(library, "a collective of NCCL", code)
    }
}

/// The communicators of a caller's ranks.
pub(crate) struct Communicators {
    library: &'static Library,
    all: Vec<Communicator>,
    is_owned: bool,
    is_aborted: AtomicBool,
}

impl Communicators {
    /// Creates the communicators; all ranks of the group do so together.
    pub fn new(group: &Group) -> Result<Self> {
        let opened = library();
        let mut id = UniqueId([0; 128]);
        let opened = opened.and_then(|library| {
            if group.members[0].rank == 0 {
                // SAFETY: the pointer is writable.
                check(library, "ncclGetUniqueId", unsafe { (library.unique_id)(&mut id) })?;
            }
            Ok(library)
        });
        let own = match &opened {
            Ok(_) => "opens NCCL's communicators".to_owned(),
            Err(reason) => format!("has no NCCL: {}", detail(reason)),
        };
        let agreed = group.agree(&own);
        let library = opened?;
        agreed?;
        let all = group.exchange.all(vec![id.0.to_vec(); group.members.len()])?;
        let Ok(identity) = all[0][..].try_into() else {
            return Err(error("rank 0 sent no NCCL identifier: all ranks need the same program"));
        };
        id = UniqueId(identity);
        let mut communicators = vec![std::ptr::null_mut(); group.members.len()];
        let begun = together(library, || {
            for (member, communicator) in group.members.iter().zip(&mut communicators) {
                member.side.raw_handle()?;
                // SAFETY: the pointer is writable until the group of calls ends, and the member's
                // GPU is current.
                let code = unsafe {
                    (library.init_rank)(
                        communicator,
                        group.world as c_int,
                        id,
                        member.rank as c_int,
                        &NON_BLOCKING,
                    )
                };
                check(library, "ncclCommInitRankConfig", code)?;
            }
            Ok(())
        });
        let all = communicators.into_iter().filter(|all| !all.is_null()).map(Communicator).collect();
        let made = Self { library, all, is_owned: true, is_aborted: AtomicBool::new(false) };
        match begun.and_then(|()| made.settle(Instant::now(), group.timeout)) {
            Ok(true) => Ok(made),
            Ok(false) => {
                made.abort(group.timeout);
                Err(group.late("the creation of NCCL's communicators"))
            }
            Err(reason) => {
                made.abort(group.timeout);
                Err(reason)
            }
        }
    }

    /// The program's communicators, by rank of this caller.
    ///
    /// # Safety
    /// They are alive, and are not destroyed before the group.
    pub unsafe fn adopt(group: &Group, all: &[*mut c_void]) -> Result<Self> {
        let library = library()?;
        let ranks: Vec<_> = group.ranks().collect();
        let mut found = Vec::new();
        for &communicator in all {
            let (mut rank, mut count) = (-1, -1);
            // SAFETY: the communicator is alive, and the pointers are writable.
            unsafe {
                check(library, "ncclCommUserRank", (library.rank)(communicator, &mut rank))?;
                check(library, "ncclCommCount", (library.count)(communicator, &mut count))?;
            }
            if count as usize != group.world {
                let world = group.world;
                return Err(error(format!("a communicator of {count} ranks, and the group has {world}")));
            }
            found.push(rank as usize);
        }
        if found != ranks {
            return Err(error(format!(
                "communicators of the ranks {found:?}, and the group's are {ranks:?}"
            )));
        }
        let all = all.iter().copied().map(Communicator).collect();
        Ok(Self { library, all, is_owned: false, is_aborted: AtomicBool::new(false) })
    }

    /// Issues several collectives as one: each has a number of elements, and a part for each
    /// member. Returns whether they are issued within the timeout.
    ///
    /// # Safety
    /// The parts are in memory of their streams' devices, and no other work uses them meanwhile.
    pub unsafe fn issue(&self, calls: &[Issue<'_>], data: c_int, timeout: Duration) -> Result<bool> {
        let (library, start) = (self.library, Instant::now());
        let mut all = Vec::new();
        for &Issue { collective, count, ref parts } in calls {
            for (part, &communicator) in parts.iter().zip(&self.all) {
                let (stream, from, to) = (part.stream.clone(), part.from, part.to);
                all.push(Call { collective, count, communicator, stream, from, to });
            }
        }
        let issue = move || {
            together(library, || {
                // SAFETY: the caller guarantees the parts; the communicators are alive.
                all.iter().try_for_each(|call| unsafe { call.issue(library, data) })
            })
        };
        match self.is_owned {
            true => issue()?,
            false => match within(timeout, issue) {
                Some(issued) => issued?,
                None => return Ok(false),
            },
        }
        self.settle(start, timeout)
    }

    /// Polls until no call is in progress; returns whether that was before the timeout, and no
    /// other rank has ended.
    fn settle(&self, start: Instant, timeout: Duration) -> Result<bool> {
        let mut naps = 0u32;
        for &Communicator(communicator) in &self.all {
            loop {
                let mut state = 0;
                // SAFETY: the communicator is alive, and the pointer is writable.
                let code = unsafe { (self.library.state)(communicator, &mut state) };
                check(self.library, "ncclCommGetAsyncError", code)?;
                if state == REMOTE_ERROR {
                    return Ok(false);
                }
                check(self.library, "NCCL", state)?;
                if state != IN_PROGRESS {
                    break;
                }
                if start.elapsed() > timeout {
                    return Ok(false);
                }
                naps += 1;
                match naps {
                    ..1000 => std::thread::yield_now(),
                    _ => std::thread::sleep(Duration::from_micros(50)),
                }
            }
        }
        Ok(true)
    }

    /// Ends the work that waits for a rank that does not arrive. The program's communicators are
    /// the program's to abort.
    pub fn abort(&self, timeout: Duration) {
        if self.is_owned && !self.is_aborted.swap(true, Ordering::Relaxed) {
            let (library, all) = (self.library, self.all.clone());
            let abort = move || {
                for Communicator(communicator) in all {
                    // SAFETY: the group has failed, and does not use the communicators again.
                    unsafe { (library.abort)(communicator) };
                }
            };
            // Some versions of NCCL wait for ever (https://github.com/NVIDIA/nccl/issues/829).
            let _ = within(timeout, abort);
        }
    }

    /// Frees the communicators, unless they were aborted; all ranks do so together.
    pub fn destroy(&self, timeout: Duration) {
        if !self.is_owned || self.is_aborted.load(Ordering::Relaxed) {
            return;
        }
        let (library, all) = (self.library, self.all.clone());
        let begun = together(library, || {
            all.iter().try_for_each(|&Communicator(communicator)| {
                // SAFETY: the communicator is alive.
                check(library, "ncclCommFinalize", unsafe { (library.finalize)(communicator) })
            })
        });
        if !matches!(begun.and_then(|()| self.settle(Instant::now(), timeout)), Ok(true)) {
            return self.abort(timeout);
        }
        let destroy = move || {
            for Communicator(communicator) in all {
                // SAFETY: this is the last use of the communicator.
                unsafe { (library.destroy)(communicator) };
            }
        };
        let _ = within(timeout, destroy);
    }
}

/// Makes calls that NCCL starts together: otherwise a thread with several members would wait in the
/// first.
fn together(library: &Library, calls: impl FnOnce() -> Result<()>) -> Result<()> {
    // SAFETY: the group of calls is ended below.
    check(library, "ncclGroupStart", unsafe { (library.start)() })?;
    let issued = calls();
    // SAFETY: the group was started above.
    let ended = check(library, "ncclGroupEnd", unsafe { (library.end)() });
    issued.and(ended)
}

/// Runs `work` on a thread and waits for its result until the timeout.
fn within<R: Send + 'static>(timeout: Duration, work: impl FnOnce() -> R + Send + 'static) -> Option<R> {
    let (done, ended) = std::sync::mpsc::channel();
    let thread = std::thread::Builder::new().name("nccl".to_owned()).spawn(move || drop(done.send(work())));
    thread.ok().and_then(|_| ended.recv_timeout(timeout).ok())
}
