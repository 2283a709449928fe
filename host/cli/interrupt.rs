//! Ctrl-C and Ctrl-\, a hang-up of the terminal, a request to end: what is unfinished goes before
//! the process does. And a limit of the size of files: what would be beyond it fails to be written,
//! as on a full disk.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::{NamedTempFile, PersistError};

/// The temporary files that go.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a temporary file that an interrupt removes until it has been given its name by [`finish`].
pub fn begin(make: impl FnOnce() -> io::Result<NamedTempFile>) -> io::Result<NamedTempFile> {
    #[cfg(unix)]
    unix::handle();
    // The lock is kept from the making to the note of it.
    let mut unfinished = unfinished();
    let file = make()?;
    unfinished.push(file.path().to_owned());
    Ok(file)
}

/// Gives a temporary file its name, before an interrupt or not at all.
pub fn finish(
    file: NamedTempFile,
    persist: impl FnOnce(NamedTempFile) -> Result<File, PersistError>,
) -> Result<File, PersistError> {
    let mut unfinished = unfinished();
    let temporary = file.path().to_owned();
    let done = persist(file)?;
    unfinished.retain(|path| *path != temporary);
    Ok(done)
}

/// Has writes beyond the limit of the size of files (`ulimit -f`) fail, instead of ending the
/// process by a signal.
pub fn outlive_the_limit_of_files() {
    #[cfg(unix)]
    unix::outlive_the_limit_of_files();
}

#[cfg(unix)]
mod unix {
    use super::unfinished;
    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    use signal_hook::iterator::Signals;
    use std::ffi::c_int;
    use std::io::{self, Write};
    use std::mem::MaybeUninit;
    use std::sync::{Arc, Once};
    use std::{fs, ptr, thread};

    /// Has the signals that would end the process wait for the files to be removed.
    pub fn handle() {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            // What is ignored stays so: `nohup` ignores the hang-up, a shell's background jobs
            // Ctrl-C.
            let fatal = [SIGHUP, SIGINT, SIGQUIT, SIGTERM].into_iter().filter(|&signal| !ignored(signal));
            // Where no handler can be had, signals do what they always do, and files are left
            // behind.
            let Ok(mut signals) = Signals::new(fatal) else { return };
            thread::spawn(move || {
                for signal in signals.forever() {
                    // The lock is kept: no file is made and none gets its name after this.
                    let unfinished = unfinished();
                    for path in unfinished.iter() {
                        let _ = fs::remove_file(path);
                    }
                    // After a hang-up nobody listens.
                    let _ = writeln!(io::stderr(), "moye: interrupted");
                    // The process ends by the signal, as whoever waits for it expects.
                    let _ = signal_hook::low_level::emulate_default_handler(signal);
                }
            });
        });
    }

    /// As the other handlers: a signal that is handled makes the write fail as one that is ignored
    /// does. Programs that are started from here have what is usual again.
    pub fn outlive_the_limit_of_files() {
        // Where no handler can be had, the signal ends the process as always.
        let _ = signal_hook::flag::register(libc::SIGXFSZ, Arc::default());
    }

    fn ignored(signal: c_int) -> bool {
        let mut action = MaybeUninit::<libc::sigaction>::uninit();
        // SAFETY: without a new action the call writes the present one and changes nothing; it is
        // read where that went well.
        unsafe {
            libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) == 0
                && action.assume_init().sa_sigaction == libc::SIG_IGN
        }
    }
}
