//! Clocks, temperature and power of a GPU, from NVIDIA's management library (NVML), which is loaded
//! at run time.

use super::limits::attributes;
use cudarc::driver::sys::CUdevice_attribute;
use moye::Device;
use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use serde::Serialize;
use std::fmt;

/// A GPU to monitor.
pub struct Monitor {
    library: Nvml,
    /// The PCI bus id, by which NVML identifies the GPU: its numbering may differ from the
    /// driver's.
    bus: String,
}

/// A sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Seen {
    /// The SM clock, in MHz.
    pub sm_mhz: Option<u32>,
    /// The memory clock, in MHz.
    pub memory_mhz: Option<u32>,
    /// The temperature, in degrees Celsius.
    pub celsius: Option<u32>,
    /// The power draw, in watts.
    pub watts: Option<u32>,
}

impl Monitor {
    /// Opens the library; the error says why there are no samples.
    pub fn open(device: &Device) -> Result<Self, String> {
        let library = Nvml::init()
            .map_err(|error| format!("NVML cannot be used ({error}); it comes with the driver"))?;
        let bus = place(device).ok_or("the driver does not report where the GPU is on the bus")?;
        let this = Self { library, bus };
        match this.library.device_by_pci_bus_id(this.bus.as_str()) {
            Ok(_) => Ok(this),
            Err(error) => Err(format!("NVML does not know the GPU {} ({error})", this.bus)),
        }
    }

    /// Takes a sample.
    pub fn look(&self) -> Seen {
        let Ok(device) = self.library.device_by_pci_bus_id(self.bus.as_str()) else { return Seen::default() };
        Seen {
            sm_mhz: device.clock_info(Clock::SM).ok(),
            memory_mhz: device.clock_info(Clock::Memory).ok(),
            celsius: device.temperature(TemperatureSensor::Gpu).ok(),
            watts: device.power_usage().ok().map(|milliwatts| milliwatts / 1000),
        }
    }
}

/// Domain, bus and device in NVML's format.
fn place(device: &Device) -> Option<String> {
    let ask = attributes(device).ok()?;
    let domain = ask(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID)?;
    let bus = ask(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)?;
    let number = ask(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID)?;
    Some(format!("{domain:08X}:{bus:02X}:{number:02X}.0"))
}

impl Seen {
    /// The median of several samples, for each value.
    pub fn typical(all: &[Self]) -> Self {
        let middle = |of: fn(&Self) -> Option<u32>| {
            let mut values: Vec<u32> = all.iter().filter_map(of).collect();
            values.sort_unstable();
            values.get(values.len() / 2).copied()
        };
        Self {
            sm_mhz: middle(|seen| seen.sm_mhz),
            memory_mhz: middle(|seen| seen.memory_mhz),
            celsius: middle(|seen| seen.celsius),
            watts: middle(|seen| seen.watts),
        }
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            self.sm_mhz.map(|mhz| format!("SMs at {mhz} MHz")),
            self.memory_mhz.map(|mhz| format!("memory at {mhz} MHz")),
            self.celsius.map(|celsius| format!("{celsius} °C")),
            self.watts.map(|watts| format!("{watts} W")),
        ];
        f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_what_was_seen_is_taken_and_what_was_not_is_left_out() {
        let seen = |mhz, celsius| Seen { sm_mhz: Some(mhz), celsius, ..Seen::default() };
        let typical = Seen::typical(&[seen(1980, Some(60)), seen(1500, None), seen(1600, Some(40))]);
        assert_eq!(typical, seen(1600, Some(60)));
        assert_eq!(typical.to_string(), "SMs at 1600 MHz, 60 °C");
        assert_eq!(Seen::typical(&[]), Seen::default());
    }
}
