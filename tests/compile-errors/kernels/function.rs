use moye_device::kernel;

#[kernel]
pub fn safe(n: u32) {}

#[kernel]
pub unsafe fn generic<T>(n: u32) {}

#[kernel]
pub unsafe fn where_clause(n: u32)
where
    u32: Copy,
{
}

#[kernel]
pub unsafe fn returns(n: u32) -> u32 {
    n
}

#[kernel]
pub async unsafe fn asynchronous(n: u32) {}

#[kernel]
pub const unsafe fn constant(n: u32) {}

#[kernel]
pub unsafe extern "C" fn with_an_abi(n: u32) {}

#[kernel]
pub unsafe fn größe(n: u32) {}

struct Owner;

impl Owner {
    #[kernel]
    pub unsafe fn method(&self) {}
}

#[kernel]
struct NoFunction;

fn main() {}
