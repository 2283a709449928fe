//! A stand-in for NCCL: communicators of threads, whose collectives wait on a stream until all
//! ranks have made them, and move no data. The first of a communicator connects the ranks, so it is
//! in progress until all have made it. Each call of a blocking communicator returns when all have
//! made it. `STAND_IN_HANGS`, such as `init 2` or `call 2`, names a rank that never returns from
//! creating its communicator, or from its first collective.
//! `STAND_IN_NOTES` names a file for calls that end communicators.

use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::io::Write;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const IN_PROGRESS: c_int = 7;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct UniqueId([u8; 128]);

#[repr(C)]
pub struct Config {
    size: usize,
    magic: c_uint,
    version: c_uint,
    blocking: c_int,
}

/// A rank, and the word for which its stream waits.
type Word = (usize, &'static AtomicU32);

/// The ranks of one identity.
struct World {
    id: [u8; 128],
    ranks: usize,
    come: AtomicUsize,
    /// For each collective the ranks that have made it, and the words for which streams wait.
    calls: Mutex<Vec<(usize, Vec<Word>)>>,
}

pub struct Communicator {
    world: Arc<World>,
    rank: usize,
    blocking: bool,
    made: AtomicUsize,
}

static WORLDS: Mutex<Vec<Arc<World>>> = Mutex::new(Vec::new());
// Collectives of blocking communicators, by their world and number.
thread_local!(static GROUP: RefCell<Vec<(Arc<World>, usize)>> = const { RefCell::new(Vec::new()) });

unsafe extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

fn hangs(what: &str, rank: usize) {
    while std::env::var("STAND_IN_HANGS").is_ok_and(|said| said == format!("{what} {rank}")) {
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn note(what: &str, rank: usize) -> c_int {
    if let Some(file) = std::env::var_os("STAND_IN_NOTES") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(file);
        file.unwrap().write_all(format!("{what} {rank}\n").as_bytes()).unwrap();
    }
    0
}

fn new(id: [u8; 128], ranks: usize, rank: usize, blocking: bool) -> &'static Communicator {
    let mut worlds = WORLDS.lock().unwrap();
    let known = worlds.iter().find(|world| world.id == id).cloned();
    let world = known.unwrap_or_else(|| {
        let world = Arc::new(World { id, ranks, come: AtomicUsize::new(0), calls: Mutex::default() });
        worlds.push(world.clone());
        world
    });
    world.come.fetch_add(1, SeqCst);
    Box::leak(Box::new(Communicator { world, rank, blocking, made: AtomicUsize::new(0) }))
}

impl Communicator {
    /// Whether all ranks have a communicator and have made the first collective that this one has.
    fn is_connected(&self) -> bool {
        let calls = self.world.calls.lock().unwrap();
        let first = self.made.load(SeqCst) == 0 || calls[0].0 == self.world.ranks;
        self.world.come.load(SeqCst) == self.world.ranks && first
    }

    fn call(&self, stream: *mut c_void) -> c_int {
        hangs("call", self.rank);
        let number = self.made.fetch_add(1, SeqCst);
        let word: &'static AtomicU32 = Box::leak(Box::default());
        {
            let mut calls = self.world.calls.lock().unwrap();
            if calls.len() <= number {
                calls.push((0, Vec::new()));
            }
            let (come, words) = &mut calls[number];
            *come += 1;
            words.push((self.rank, word));
            if *come == self.world.ranks {
                words.iter().for_each(|(_, word)| word.store(1, SeqCst));
            }
        }
        type Wait = unsafe extern "C" fn(*mut c_void, u64, c_uint, c_uint) -> c_int;
        // SAFETY: the stand-in for the driver is open and has this function.
        unsafe {
            let wait = dlsym(dlopen(c"libcuda.so.1".as_ptr(), 2), c"cuStreamWaitValue32_v2".as_ptr());
            std::mem::transmute::<*mut c_void, Wait>(wait)(stream, word.as_ptr().expose_provenance() as u64, 1, 0);
        }
        if self.blocking {
            GROUP.with_borrow_mut(|group| group.push((self.world.clone(), number)));
        }
        0
    }
}

macro_rules! nccl {
    ($(fn $name:ident($($arg:ident: $type:ty),*) = $body:expr;)*) => { $(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> c_int {
            // SAFETY: called as NCCL's interface requires.
            #[allow(unused_unsafe)]
            unsafe { $body }
        }
    )* };
}

type Comm = &'static Communicator;

nccl! {
    fn ncclGetVersion(version: *mut c_int) = { *version = 22809; 0 };
    fn ncclGetUniqueId(id: *mut UniqueId) = {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let mut bytes = [0; 128];
        bytes[..4].copy_from_slice(&NEXT.fetch_add(1, SeqCst).to_le_bytes());
        id.write(UniqueId(bytes));
        0
    };
    fn ncclCommInitRankConfig(comm: *mut Comm, ranks: c_int, id: UniqueId, rank: c_int, config: *const Config) = {
        let config = &*config;
        if (config.size, config.magic, config.version, config.blocking) != (24, 0xcafe_beef, 21_400, 0) {
            return 4;
        }
        hangs("init", rank as usize);
        comm.write(new(id.0, ranks as usize, rank as usize, false));
        IN_PROGRESS
    };
    fn ncclCommInitAll(comms: *mut Comm, ranks: c_int, _devices: *const c_int) = {
        for rank in 0..ranks as usize {
            comms.add(rank).write(new([0; 128], ranks as usize, rank, true));
        }
        0
    };
    fn ncclCommGetAsyncError(comm: Comm, state: *mut c_int) = {
        *state = if comm.is_connected() { 0 } else { IN_PROGRESS };
        0
    };
    fn ncclCommCount(comm: Comm, count: *mut c_int) = { *count = comm.world.ranks as c_int; 0 };
    fn ncclCommUserRank(comm: Comm, rank: *mut c_int) = { *rank = comm.rank as c_int; 0 };
    fn ncclCommFinalize(comm: Comm) = note("finalize", comm.rank);
    fn ncclCommDestroy(comm: Comm) = note("destroy", comm.rank);
    fn ncclCommAbort(comm: Comm) = {
        // The work of other ranks waits on.
        for (_, words) in &*comm.world.calls.lock().unwrap() {
            words.iter().filter(|(rank, _)| *rank == comm.rank).for_each(|(_, word)| word.store(1, SeqCst));
        }
        note("abort", comm.rank)
    };
    fn ncclGroupStart() = 0;
    fn ncclGroupEnd() = {
        for (world, number) in GROUP.take() {
            while world.calls.lock().unwrap()[number].0 < world.ranks {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        0
    };
    fn ncclAllReduce(_from: u64, _to: u64, _count: usize, _type: c_int, _sum: c_int, comm: Comm, stream: *mut c_void) =
        comm.call(stream);
    fn ncclReduce(_from: u64, _to: u64, _count: usize, _type: c_int, _sum: c_int, _root: c_int, comm: Comm,
        stream: *mut c_void) = comm.call(stream);
    fn ncclReduceScatter(_from: u64, _to: u64, _count: usize, _type: c_int, _sum: c_int, comm: Comm,
        stream: *mut c_void) = comm.call(stream);
    fn ncclAllGather(_from: u64, _to: u64, _count: usize, _type: c_int, comm: Comm, stream: *mut c_void) =
        comm.call(stream);
    fn ncclBroadcast(_from: u64, _to: u64, _count: usize, _type: c_int, _root: c_int, comm: Comm,
        stream: *mut c_void) = comm.call(stream);
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclGetErrorString(_code: c_int) -> *const c_char {
    c"of the stand-in".as_ptr()
}
