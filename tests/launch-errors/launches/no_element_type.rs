pub fn upload(device: &moye::Device) {
    device.upload(&[true, false]);
}

fn main() {}
