//! NCCL, opened when a group first needs it: one communicator for each rank of this caller.
//!
//! The bindings are separate because the loader of `cudarc` 0.19 tries eighteen names of the
//! library, but not `libnccl.so.2`, which NCCL's packages and PyTorch's install.

use crate::collectives::{Collective, Issue};
use crate::exchange::error;
use crate::group::Group;
use moye_runtime::Result;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The file names that are tried.
const FILES: [&str; 2] = ["libnccl.so.2", "libnccl.so"];
/// `ncclSum`.
const SUM: c_int = 0;

/// `ncclUniqueId`.
#[repr(C)]
#[derive(Clone, Copy)]
struct UniqueId([u8; 128]);

macro_rules! functions {
    ($($field:ident $symbol:literal ($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions of the library.
        struct Library {
            $($field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            _library: libloading::Library,
        }
        impl Library {
            fn of(library: libloading::Library) -> std::result::Result<Self, libloading::Error> {
                // SAFETY: the types are those of nccl.h, the same since NCCL 2.10.
                unsafe { Ok(Self { $($field: *library.get($symbol)?,)* _library: library }) }
            }
        }
    };
}
functions! {
    version c"ncclGetVersion" (*mut c_int) -> c_int;
    unique_id c"ncclGetUniqueId" (*mut UniqueId) -> c_int;
    init_rank c"ncclCommInitRank" (*mut *mut c_void, c_int, UniqueId, c_int) -> c_int;
    count c"ncclCommCount" (*mut c_void, *mut c_int) -> c_int;
    rank c"ncclCommUserRank" (*mut c_void, *mut c_int) -> c_int;
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
            "cannot open NCCL ({}); install it, or put its folder into LD_LIBRARY_PATH",
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

fn check(library: &Library, call: &str, code: c_int) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    // SAFETY: NCCL returns a string that lives as long as the library.
    let text = unsafe { CStr::from_ptr((library.text)(code)) };
    Err(error(format!("{call}: {} (NCCL_DEBUG=WARN says more)", text.to_string_lossy())))
}

/// The communicators of a caller's ranks.
pub(crate) struct Communicators {
    library: &'static Library,
    all: Vec<*mut c_void>,
    is_owned: bool,
    is_aborted: AtomicBool,
}

// SAFETY: any thread may use NCCL's communicators, one at a time: the group's lock ensures that.
unsafe impl Send for Communicators {}
// SAFETY: as above.
unsafe impl Sync for Communicators {}

impl Communicators {
    /// Creates the communicators; all ranks of the group do so together.
    pub fn new(group: &Group) -> Result<Self> {
        let opened = library();
        let mut id = UniqueId([0; 128]);
        let own = match &opened {
            Ok(library) if group.members[0].rank == 0 => {
                // SAFETY: the pointer is writable.
                check(library, "ncclGetUniqueId", unsafe { (library.unique_id)(&mut id) }).map_or_else(
                    |error| format!("{:129}", error.to_string()).into_bytes(),
                    |()| id.0.to_vec(),
                )
            }
            Ok(_) => id.0.to_vec(),
            // No message has the length of an identity.
            Err(error) => format!("{:129}", error.to_string()).into_bytes(),
        };
        let all = group.exchange.all(vec![own; group.members.len()])?;
        let library = opened?;
        if let Some(rank) = all.iter().position(|said| said.len() != 128) {
            let said = String::from_utf8_lossy(&all[rank]);
            return Err(error(format!("rank {rank} has no NCCL: {}", said.trim_end())));
        }
        id.0.copy_from_slice(&all[0]);
        let mut communicators = vec![std::ptr::null_mut(); group.members.len()];
        let in_group = together(library, || {
            for (member, communicator) in group.members.iter().zip(&mut communicators) {
                member.side.raw_handle()?;
                // SAFETY: the pointer is writable until the group of calls ends, and the member's
                // GPU is current.
                let code = unsafe {
                    (library.init_rank)(communicator, group.world as c_int, id, member.rank as c_int)
                };
                check(library, "ncclCommInitRank", code)?;
            }
            Ok(())
        });
        in_group?;
        Ok(Self { library, all: communicators, is_owned: true, is_aborted: AtomicBool::new(false) })
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
        Ok(Self { library, all: all.to_vec(), is_owned: false, is_aborted: AtomicBool::new(false) })
    }

    /// Issues several collectives as one: each has a number of elements, and a part for each
    /// member.
    ///
    /// # Safety
    /// The parts are in memory of their streams' devices, and no other work uses them meanwhile.
    pub unsafe fn issue(&self, calls: &[Issue<'_>], data: c_int) -> Result<()> {
        let library = self.library;
        together(library, || {
            for Issue { collective, count, parts } in calls {
                for (part, &communicator) in parts.iter().zip(&self.all) {
                    let (stream, count, from, to) = (part.stream.raw_handle()?, *count, part.from, part.to);
                    // SAFETY: the caller guarantees the parts; the communicator is alive.
                    let code = unsafe {
                        match *collective {
                            Collective::AllReduce => {
                                (library.all_reduce)(from, to, count, data, SUM, communicator, stream)
                            }
                            Collective::Reduce(root) => {
                                let root = root as c_int;
                                (library.reduce)(from, to, count, data, SUM, root, communicator, stream)
                            }
                            Collective::ReduceScatter => {
                                (library.reduce_scatter)(from, to, count, data, SUM, communicator, stream)
                            }
                            Collective::AllGather => {
                                (library.all_gather)(from, to, count, data, communicator, stream)
                            }
                            Collective::Broadcast(root) => {
                                let root = root as c_int;
                                (library.broadcast)(from, to, count, data, root, communicator, stream)
                            }
                        }
                    };
                    check(library, "a collective of NCCL", code)?;
                }
            }
            Ok(())
        })
    }

    /// Ends the work that waits for a rank that does not arrive. The program's communicators are
    /// the program's to abort.
    pub fn abort(&self) {
        if self.is_owned && !self.is_aborted.swap(true, Ordering::Relaxed) {
            for &communicator in &self.all {
                // SAFETY: the group has failed, and does not use the communicator again.
                unsafe { (self.library.abort)(communicator) };
            }
        }
    }

    /// Frees the communicators, unless they were aborted.
    pub fn destroy(&self) {
        if self.is_owned && !self.is_aborted.load(Ordering::Relaxed) {
            for &communicator in &self.all {
                // SAFETY: this is the last use of the communicator.
                unsafe { (self.library.destroy)(communicator) };
            }
        }
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
