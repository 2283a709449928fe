//! Signals: unfinished temporary files are removed before Ctrl-C, Ctrl-\, a hang-up of the terminal
//! or a termination request ends the process. A write past the file size limit fails like a write
//! to a full disk.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::{NamedTempFile, PersistError};

/// The temporary files to remove.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Creates a temporary file that an interrupt removes unless [`finish`] has renamed it.
pub fn begin(make: impl FnOnce() -> io::Result<NamedTempFile>) -> io::Result<NamedTempFile> {
    #[cfg(unix)]
    unix::handle();
    // The lock is held until the new file is in the list.
    let mut unfinished = unfinished();
    let file = make()?;
    unfinished.push(file.path().to_owned());
    Ok(file)
}

/// Renames a temporary file to its name: before an interrupt, or never.
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

/// Makes writes past the file size limit (`ulimit -f`) fail instead of ending the process by a
/// signal.
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

    /// Makes fatal signals wait until the files are removed.
    pub fn handle() {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            // Ignored signals stay ignored: `nohup` ignores the hang-up, a shell's background jobs
            // ignore Ctrl-C.
            let fatal = [SIGHUP, SIGINT, SIGQUIT, SIGTERM].into_iter().filter(|&signal| !ignored(signal));
            // If no handler can be installed, signals keep their default effect, and files are left
            // behind.
            let Ok(mut signals) = Signals::new(fatal) else { return };
            thread::spawn(move || {
                for signal in signals.forever() {
                    // The lock is held, so no file is created or renamed after this.
                    let unfinished = unfinished();
                    for path in unfinished.iter() {
                        let _ = fs::remove_file(path);
                    }
                    // After a hang-up no terminal reads the output.
                    let _ = writeln!(io::stderr(), "moye: interrupted");
                    // The process ends by the signal, as its parent expects.
                    let _ = signal_hook::low_level::emulate_default_handler(signal);
                }
            });
        });
    }

    /// As for the other handlers: a handled signal makes the write fail, like an ignored one, but
    /// child processes get the default action back.
    pub fn outlive_the_limit_of_files() {
        // If no handler can be installed, the signal ends the process as usual.
        let _ = signal_hook::flag::register(libc::SIGXFSZ, Arc::default());
    }

    fn ignored(signal: c_int) -> bool {
        let mut action = MaybeUninit::<libc::sigaction>::uninit();
        // SAFETY: without a new action the call only writes the current one, which is read if the
        // call succeeded.
        unsafe {
            libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) == 0
                && action.assume_init().sa_sigaction == libc::SIG_IGN
        }
    }
}
