use moye_device::arch::{LoadCache, LoadHint};

const HINT: LoadHint = LoadHint::READ_ONLY.cache(LoadCache::Lu);

fn main() {
    println!("{HINT:?}");
}
