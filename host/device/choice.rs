//! The user's choice of a device.

use crate::{Error, Result};
use std::env;
use std::fmt;
use std::str::FromStr;

/// The environment variable that [`Device::open`](crate::Device::open) reads.
pub const VARIABLE: &str = "MOYE_DEVICE";

/// The name of a device: `auto`, `gpu`, `gpu:N` or `sim`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// GPU 0 if it is usable, otherwise the simulator.
    #[default]
    Auto,
    /// The GPU with this index.
    Gpu(u32),
    /// The simulator.
    Sim,
}

impl DeviceChoice {
    /// The value of the environment variable `MOYE_DEVICE`; [`DeviceChoice::Auto`] if it is not set
    /// or empty.
    ///
    /// # Errors
    /// [`Error::DeviceVariable`] if it does not name a device.
    pub fn from_env() -> Result<Self> {
        match env::var_os(VARIABLE) {
            None => Ok(Self::Auto),
            Some(text) if text.is_empty() => Ok(Self::Auto),
            Some(text) => text.to_string_lossy().parse().map_err(|e| Error::DeviceVariable(Box::new(e))),
        }
    }
}

impl FromStr for DeviceChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "auto" => Ok(Self::Auto),
            "gpu" => Ok(Self::Gpu(0)),
            "sim" => Ok(Self::Sim),
            _ => text
                .strip_prefix("gpu:")
                // `parse` alone would accept a sign.
                .filter(|index| index.bytes().all(|b| b.is_ascii_digit()))
                .and_then(|index| index.parse().ok())
                .map(Self::Gpu)
                .ok_or_else(|| Error::DeviceName { text: text.to_owned() }),
        }
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Gpu(index) => write!(f, "gpu:{index}"),
            Self::Sim => f.write_str("sim"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read() {
        for (text, choice) in [
            ("auto", DeviceChoice::Auto),
            ("gpu", DeviceChoice::Gpu(0)),
            ("gpu:0", DeviceChoice::Gpu(0)),
            ("gpu:12", DeviceChoice::Gpu(12)),
            ("sim", DeviceChoice::Sim),
        ] {
            assert_eq!(text.parse::<DeviceChoice>().unwrap(), choice, "{text}");
            assert_eq!(choice.to_string().parse::<DeviceChoice>().unwrap(), choice, "{choice} is read back");
        }
    }

    #[test]
    fn anything_else_is_refused_with_what_is_possible() {
        for text in ["", "GPU", "gpu:", "gpu:-1", "gpu:+1", "gpu:1x", "gpu:99999999999", "cuda", "sim:0"] {
            let error = text.parse::<DeviceChoice>().unwrap_err().to_string();
            assert!(error.contains(&format!("`{text}`")) && error.contains("gpu:N"), "{error}");
        }
    }
}
