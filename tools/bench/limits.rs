//! The peak rates of a GPU, from the number of SMs, the clock, and the operations of an SM per
//! clock.

use crate::Kind;
use anyhow::{Context, Result, ensure};
use cudarc::driver::sys::{self, CUdevice_attribute};
use moye::Device;

/// The properties of a GPU that determine its peak rates.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// The compute capability.
    pub capability: (u32, u32),
    /// The number of SMs.
    pub multiprocessors: u32,
    /// The highest SM clock, in Hz. Under load the power limit may lower the clock.
    pub clock: f64,
    /// Memory bandwidth in bytes per second: twice the memory clock times the width of the bus.
    pub memory_rate: f64,
}

impl Facts {
    /// Reads the properties from the driver.
    pub fn of(device: &Device) -> Result<Self> {
        let attribute = attributes(device)?;
        let ask = |which| {
            attribute(which).map(f64::from).context("the driver does not report the device's attributes")
        };
        let properties = device.properties();
        Ok(Self {
            capability: properties.arch.capability(),
            multiprocessors: properties.multiprocessors,
            clock: 1e3 * ask(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?,
            memory_rate: 2e3
                * ask(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?
                * ask(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)?
                / 8.0,
        })
    }

    /// The peak of the instruction that the kernels use (`wgmma`, `mma.sync` or FMA), in 10^12
    /// operations per second; `None` for an architecture whose rates are not listed here, or if the
    /// driver reports no clock.
    pub fn limit(&self, kind: Kind) -> Option<f64> {
        let rate = operations_per_clock(self.capability, kind)?;
        Some(f64::from(self.multiprocessors) * self.clock * rate / 1e12).filter(|&limit| limit > 0.0)
    }

    /// The peak of `mma.sync`, also on GPUs with `wgmma`: there f16 and bf16 have the rate of f16
    /// with f16 accumulators.
    pub fn limit_by_mma_sync(&self, kind: Kind) -> Option<f64> {
        match (self.capability, kind) {
            ((9, 0), Kind::F16 | Kind::Bf16) => self.limit(Kind::F16Accumulators),
            _ => self.limit(kind),
        }
    }
}

/// The attributes of a GPU from the driver.
pub(super) fn attributes(device: &Device) -> Result<impl Fn(CUdevice_attribute) -> Option<i32> + use<>> {
    // Makes the device's context current on this thread.
    ensure!(!device.default_stream().raw_handle()?.is_null(), "the simulator has no attributes of a driver");
    let mut gpu = 0;
    // SAFETY: the driver is loaded, a context is current, and the result is writable.
    unsafe { sys::cuCtxGetDevice(&mut gpu) }
        .result()
        .context("the driver does not report the current device")?;
    Ok(move |which| {
        let mut value = 0;
        // SAFETY: the driver returned the device; the pointer to the result is writable.
        unsafe { sys::cuDeviceGetAttribute(&mut value, which, gpu) }.result().ok().map(|()| value)
    })
}

/// Operations of an SM per clock; a multiply-add is two.
///
/// - 8.0: NVIDIA A100 Tensor Core GPU Architecture whitepaper, table of peak rates: 108 SMs at 1.41
///   GHz reach 312 TFLOP/s of f16 and bf16, 156 of tf32, 624 TOP/s of int8, 19.5 TFLOP/s of f64 on
///   tensor cores and of f32.
/// - 8.6: NVIDIA Ampere GA102 GPU Architecture whitepaper, RTX 3090: 82 at 1.695 GHz reach 71
///   TFLOP/s of f16 with f32 accumulators (142 with f16 accumulators), 35.6 of tf32, 35.6 of f32,
///   284 TOP/s of int8. Professional cards of this architecture are as fast with f32 as with f16
///   accumulators.
/// - 8.9: NVIDIA Ada GPU Architecture whitepaper, RTX 4090: 128 at 2.52 GHz reach 165.2 and 330.3
///   TFLOP/s of f16, 82.6 of tf32, 82.6 of f32, 660.6 TOP/s of int8; the same note holds.
/// - 9.0: NVIDIA H100 Tensor Core GPU Architecture whitepaper: 4096 operations of f16 per clock,
///   2048 of tf32, 8192 of int8 and of 8-bit floats, with `wgmma`. f16 with f16 accumulators uses
///   `mma.sync` here, which from registers alone reached 645 TFLOP/s of f16 on an H200 at 1,980
///   MHz, 0.602 of the `wgmma` peak (docs/decisions/0007). f64 has only `mma.sync`, 256 operations
///   by the whitepaper; f32 has 256 on 128 lanes.
fn operations_per_clock(capability: (u32, u32), kind: Kind) -> Option<f64> {
    const MMA_SYNC_OF_WGMMA: f64 = 0.602;
    Some(match (capability, kind) {
        ((8, 0), Kind::F32 | Kind::F64) => 128.0,
        ((8, 0), Kind::Tf32) => 1024.0,
        ((8, 0), Kind::F16 | Kind::F16Accumulators | Kind::Bf16) => 2048.0,
        ((8, 0), Kind::I8) => 4096.0,
        ((8, 6 | 9), Kind::F32 | Kind::Tf32) => 256.0,
        ((8, 6 | 9), Kind::F16 | Kind::Bf16) => 512.0,
        ((8, 6 | 9), Kind::F16Accumulators) => 1024.0,
        ((8, 6 | 9), Kind::I8) => 2048.0,
        ((9, 0), Kind::F32 | Kind::F64) => 256.0,
        ((9, 0), Kind::Tf32) => 2048.0,
        ((9, 0), Kind::F16 | Kind::Bf16) => 4096.0,
        ((9, 0), Kind::F16Accumulators) => 4096.0 * MMA_SYNC_OF_WGMMA,
        ((9, 0), Kind::I8 | Kind::E4m3) => 8192.0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mma_sync_has_a_limit_of_its_own_where_there_is_wgmma() {
        let machine =
            |capability| Facts { capability, multiprocessors: 132, clock: 1.98e9, memory_rate: 0.0 };
        for kind in [Kind::F16, Kind::Bf16] {
            let limit = machine((9, 0)).limit_by_mma_sync(kind).unwrap();
            assert!((limit - 645.0).abs() < 1.0, "{limit} of {kind}");
            let ampere = machine((8, 0));
            assert_eq!(ampere.limit_by_mma_sync(kind), ampere.limit(kind));
        }
        assert_eq!(machine((9, 0)).limit_by_mma_sync(Kind::F64), machine((9, 0)).limit(Kind::F64));
    }

    /// The rates times SMs and clock reproduce the whitepapers' figures.
    #[test]
    fn limits_are_those_of_the_datasheets() {
        let machine = |capability, multiprocessors, clock| Facts {
            capability,
            multiprocessors,
            clock,
            memory_rate: 0.0,
        };
        let a100 = machine((8, 0), 108, 1.41e9);
        let rtx_3090 = machine((8, 6), 82, 1.695e9);
        let rtx_4090 = machine((8, 9), 128, 2.52e9);
        let h200 = machine((9, 0), 132, 1.98e9);
        for (machine, kind, expected) in [
            (&a100, Kind::F16, 312.0),
            (&a100, Kind::Bf16, 312.0),
            (&a100, Kind::Tf32, 156.0),
            (&a100, Kind::I8, 624.0),
            (&a100, Kind::F64, 19.5),
            (&a100, Kind::F32, 19.5),
            (&rtx_3090, Kind::F16, 71.0),
            (&rtx_3090, Kind::F16Accumulators, 142.0),
            (&rtx_3090, Kind::Tf32, 35.6),
            (&rtx_3090, Kind::I8, 284.0),
            (&rtx_4090, Kind::F16, 165.2),
            (&rtx_4090, Kind::F32, 82.6),
            (&h200, Kind::F32, 66.9),
            (&h200, Kind::F64, 66.9),
            (&h200, Kind::F16, 1070.0),
            (&h200, Kind::F16Accumulators, 645.0),
            (&h200, Kind::Tf32, 535.0),
            (&h200, Kind::I8, 2140.0),
            (&h200, Kind::E4m3, 2140.0),
        ] {
            let limit = machine.limit(kind).unwrap();
            assert!((limit / expected - 1.0).abs() < 0.01, "{machine:?} {kind}: {limit}");
        }
        assert_eq!(rtx_4090.limit(Kind::F64), None, "it has no tensor cores for f64");
        assert_eq!(a100.limit(Kind::E4m3), None, "nor has this one for 8-bit floats");
        assert_eq!(machine((12, 0), 1, 1.0).limit(Kind::F16), None);
        assert_eq!(machine((9, 0), 132, 0.0).limit(Kind::F16), None, "no clock was told");
    }
}
