//! The driver's types for builds without `cust`: the subset of NVIDIA's `cuda.h` that this crate
//! calls.
#![allow(non_camel_case_types)]

use std::ffi::{c_int, c_ulonglong};

/// The ordinal of a device.
pub type CUdevice = c_int;
/// A device address.
pub type CUdeviceptr = c_ulonglong;

macro_rules! handles {
    ($($handle:ident, $object:ident;)*) => { $(
        /// An object of the driver.
        pub enum $object {}
        pub type $handle = *mut $object;
    )* };
}

handles! {
    CUcontext, CUctx_st;
    CUevent, CUevent_st;
    CUfunction, CUfunc_st;
    CUgraph, CUgraph_st;
    CUgraphExec, CUgraphExec_st;
    CUgraphNode, CUgraphNode_st;
    CUmemoryPool, CUmemPoolHandle_st;
    CUmodule, CUmod_st;
    CUstream, CUstream_st;
}

/// Enums as integers, because the driver may return a value that is not listed here.
macro_rules! numbers {
    ($($name:ident { $($value:ident = $number:literal,)* })*) => {
        $(
            /// An enum of the driver.
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            #[repr(transparent)]
            pub struct $name(pub c_int);

            impl $name {
                $(pub const $value: Self = Self($number);)*
            }
        )*

        #[cfg(all(test, feature = "cust"))]
        #[test]
        fn the_numbers_are_those_of_custs_bindings() {
            $($(assert_eq!($name::$value.0, cust::sys::$name::$value as c_int, stringify!($value));)*)*
        }
    };
}

numbers! {
    CUdevice_attribute {
        CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13,
        CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
        CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE = 36,
        CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH = 37,
        CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
        CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81,
        CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
    }
    CUfunction_attribute {
        CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
        CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
        CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,
        CU_FUNC_ATTRIBUTE_NUM_REGS = 4,
        CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
    }
    CUjit_option {
        CU_JIT_ERROR_LOG_BUFFER = 5,
        CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6,
    }
    CUmemPool_attribute {
        CU_MEMPOOL_ATTR_RELEASE_THRESHOLD = 4,
    }
    CUpointer_attribute {
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
    }
    CUresult {
        CUDA_SUCCESS = 0,
    }
    CUstreamCaptureMode {
        CU_STREAM_CAPTURE_MODE_RELAXED = 2,
    }
    CUstreamCaptureStatus {
        CU_STREAM_CAPTURE_STATUS_NONE = 0,
    }
}
