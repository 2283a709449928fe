use moye_device::kernel;

#[kernel]
pub unsafe fn pattern((a, b): (u32, u32)) {}

#[kernel]
pub unsafe fn nameless(_: u32) {}

#[kernel]
pub unsafe fn seventeen(
    a: u32,
    b: u32,
    c: u32,
    d: u32,
    e: u32,
    f: u32,
    g: u32,
    h: u32,
    i: u32,
    j: u32,
    k: u32,
    l: u32,
    m: u32,
    n: u32,
    o: u32,
    p: u32,
    one_too_many: u32,
) {
}

// All that is wrong with one function is said at once.
#[kernel(threads = 0)]
pub fn much_is_wrong(_: u32) -> u32 {}

fn main() {}
