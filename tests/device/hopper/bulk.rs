//! Bulk copies and tensor copies, compared with a loop on the host.

use crate::{PTX, devices};
use half::{bf16, f16};
use moye::{
    Buffer, Device, Element, Error, Global, GlobalMut, Grid, Kernel, Module, TensorElement, TensorFill,
    TensorMap, TensorMapFields as Description, TensorSwizzle,
};
use moye_device::atom::tma::{TmaMapError, TmaTile};
use moye_device::layout::{ComposedLayout, Layout, identity_layout, layout, tuple};
use moye_kernels_hopper as kernels;

/// Consecutive words.
fn counted(count: usize) -> Vec<u32> {
    (0..count as u32).map(|i| i.wrapping_mul(0x9E37_79B9) | 1).collect()
}

/// A tensor of words: its extents, its strides in words, the box.
#[derive(Clone, Copy)]
struct Case {
    extents: &'static [u64],
    strides: &'static [u64],
    boxes: &'static [u32],
}

/// One tensor for each rank, whose rows have gaps between them.
const CASES: [Case; 5] = [
    Case { extents: &[100], strides: &[], boxes: &[64] },
    Case { extents: &[30, 17], strides: &[32], boxes: &[32, 9] },
    Case { extents: &[12, 5, 7], strides: &[12, 64], boxes: &[8, 4, 3] },
    Case { extents: &[8, 3, 4, 5], strides: &[8, 28, 112], boxes: &[4, 3, 2, 4] },
    Case { extents: &[4, 3, 2, 3, 2], strides: &[4, 12, 24, 72], boxes: &[4, 2, 2, 2, 2] },
];

impl Case {
    fn rank(&self) -> usize {
        self.extents.len()
    }

    fn span(&self) -> usize {
        let rows = self.strides.iter().zip(&self.extents[1..]).map(|(s, e)| s * (e - 1)).sum::<u64>();
        (rows + self.extents[0]) as usize
    }

    fn map(&self, address: u64) -> Description {
        let strides: Vec<u64> = self.strides.iter().map(|stride| 4 * stride).collect();
        Description::new(TensorElement::U32, address, self.extents, &strides, self.boxes)
    }

    fn words(&self) -> usize {
        self.boxes.iter().product::<u32>() as usize
    }

    /// For each element of the box that starts at `start`, its index in the buffer if it is inside
    /// the tensor.
    fn elements(&self, start: &[i32]) -> Vec<Option<usize>> {
        let index = |at: usize| {
            let mut rest = at as i64;
            let mut index = 0;
            for (d, &first) in start.iter().enumerate() {
                let coordinate = i64::from(first) + rest % i64::from(self.boxes[d]);
                rest /= i64::from(self.boxes[d]);
                if coordinate < 0 || coordinate >= self.extents[d] as i64 {
                    return None;
                }
                index += coordinate * if d == 0 { 1 } else { self.strides[d - 1] as i64 };
            }
            Some(index as usize)
        };
        (0..self.words()).map(index).collect()
    }

    /// Whether a word is outside the tensor, but shares 16 bytes with the end of a row.
    fn is_behind_a_row(&self, at: usize) -> bool {
        let extent = self.extents[0] as usize;
        let place = self.strides.iter().rev().fold(at, |rest, &stride| rest % stride as usize);
        (extent..extent.next_multiple_of(4)).contains(&place)
    }

    /// Starts inside, across each edge, and outside, as far as `what` supports them.
    fn starts(&self, what: What) -> Vec<Vec<i32>> {
        let all = |f: &dyn Fn(usize) -> i32| (0..self.rank()).map(f).collect::<Vec<_>>();
        let mut starts =
            vec![all(&|_| 0), all(&|d| self.extents[d] as i32 - 1), all(&|_| -1), all(&|_| -300)];
        for d in 0..self.rank() {
            starts.push(all(&|other| if other == d { self.extents[d] as i32 - 2 } else { 0 }));
        }
        // Along dimension 0 a box starts at a multiple of 16 bytes.
        for start in &mut starts {
            start[0] = start[0].div_euclid(4) * 4;
        }
        starts.retain(|start| what == What::Load || self.map(0).stores_from(start));
        starts
    }
}

/// The kernels of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Load,
    Store,
    Add,
}

macro_rules! launch {
    ($module:ident, $what:ident, $map:ident, $bytes:ident, $buffer:ident, $start:ident:
        $($rank:literal $load:ident $store:ident $add:ident: $($d:literal)*;)*) => {
        match $start.len() {
            $($rank => {
                let grid = Grid::new(1, 128);
                // SAFETY: the buffer has as many bytes as the box, and the map's tensor lives.
                unsafe {
                    match $what {
                        What::Load => $module.launch(&kernels::$load, grid, ($map, $bytes, &mut *$buffer, $($start[$d]),*)),
                        What::Store => $module.launch(&kernels::$store, grid, ($map, $bytes, &*$buffer, $($start[$d]),*)),
                        What::Add => $module.launch(&kernels::$add, grid, ($map, $bytes, &*$buffer, $($start[$d]),*)),
                    }
                }
            })*
            rank => panic!("no kernel of rank {rank}"),
        }
    };
}

/// One copy of a box; `buffer` is its image in shared memory.
fn copy(module: &Module, what: What, map: &TensorMap, buffer: &mut Buffer<u32>, start: &[i32]) {
    let bytes = map.fields().box_bytes() as u32;
    launch!(module, what, map, bytes, buffer, start:
        1 load_1d store_1d add_1d: 0;
        2 load_2d store_2d add_2d: 0 1;
        3 load_3d store_3d add_3d: 0 1 2;
        4 load_4d store_4d add_4d: 0 1 2 3;
        5 load_5d store_5d add_5d: 0 1 2 3 4;
    )
    .unwrap();
}

#[test]
fn boxes_of_every_rank_are_loaded_stored_and_added() {
    for device in devices() {
        let module = device.load(&PTX).unwrap();
        for case in CASES {
            let tensor = counted(case.span());
            let patch: Vec<u32> = counted(case.words()).iter().map(|word| word ^ 0x5555).collect();
            let context = |start: &[i32]| format!("rank {} at {start:?} on {}", case.rank(), device.name());
            for start in case.starts(What::Load) {
                let buffer = device.upload(&tensor).unwrap();
                let map = TensorMap::new(&device, &case.map(buffer.address())).unwrap();
                let mut loaded = device.alloc_uninit::<u32>(case.words()).unwrap();
                copy(&module, What::Load, &map, &mut loaded, &start);
                let elements = case.elements(&start);
                let expected: Vec<u32> = elements.iter().map(|at| at.map_or(0, |at| tensor[at])).collect();
                assert_eq!(loaded.download().unwrap(), expected, "loaded, {}", context(&start));
            }
            for what in [What::Store, What::Add] {
                for start in case.starts(what) {
                    let context = context(&start);
                    let buffer = device.upload(&tensor).unwrap();
                    let map = TensorMap::new(&device, &case.map(buffer.address())).unwrap();
                    copy(&module, what, &map, &mut device.upload(&patch).unwrap(), &start);
                    // A fault of the kernel is reported here, not by the next call.
                    let done = device.default_stream().synchronize();
                    done.unwrap_or_else(|error| panic!("{what:?}, {context}: {error}"));
                    let mut expected = tensor.clone();
                    for (at, word) in case.elements(&start).iter().zip(&patch) {
                        let Some(at) = *at else { continue };
                        expected[at] =
                            if what == What::Add { expected[at].wrapping_add(*word) } else { *word };
                    }
                    let mut got = buffer.download().unwrap();
                    // The rest of a row's last 16 bytes may be written or not.
                    for (at, got) in got.iter_mut().enumerate() {
                        if case.is_behind_a_row(at) {
                            *got = expected[at];
                        }
                    }
                    assert!(got == expected, "{what:?}, {context}");
                }
            }
        }
    }
}

#[test]
fn swizzles_exchange_pieces_of_rows() {
    for device in devices() {
        let module = device.load(&PTX).unwrap();
        for swizzle in [TensorSwizzle::B32, TensorSwizzle::B64, TensorSwizzle::B128] {
            let columns = swizzle.span().unwrap() as u32 / 4;
            let case = [48_u64, 40];
            let tensor = counted(48 * 40);
            let buffer = device.upload(&tensor).unwrap();
            let description =
                Description::new(TensorElement::U32, buffer.address(), &case, &[192], &[columns, 32])
                    .with_swizzle(swizzle);
            let map = TensorMap::new(&device, &description).unwrap();
            let words = (columns * 32) as usize;
            let mut loaded = device.alloc_uninit::<u32>(words).unwrap();
            let start = [4_i32, 20];
            // Without and with a policy for L2.
            let kernels: [&Kernel<_>; 2] = [&kernels::load_2d, &kernels::load_2d_policy];
            for kernel in kernels {
                let arguments = (&map, 4 * words as u32, &mut loaded, start[0], start[1]);
                // SAFETY: the buffer has as many bytes as the box.
                unsafe { module.launch(kernel, Grid::new(1, 128), arguments) }.unwrap();
                let got = loaded.download().unwrap();
                for (at, _) in got.iter().enumerate() {
                    let (x, y) = (start[0] as usize + at % columns as usize, 20 + at / columns as usize);
                    let expected = if x < 48 && y < 40 { tensor[x + 48 * y] } else { 0 };
                    // The tile starts at a multiple of 1,024 bytes.
                    let place = swizzle.apply(4 * at as u32) as usize / 4;
                    assert_eq!(got[place], expected, "({x}, {y}), {swizzle:?} on {}", device.name());
                }
            }
            // Stores the swizzled image to another tensor.
            let target = device.alloc_zeroed::<u32>(48 * 40).unwrap();
            let back = Description { address: target.address(), ..description };
            let back = TensorMap::new(&device, &back).unwrap();
            let kernels: [&Kernel<_>; 2] = [&kernels::store_2d, &kernels::store_2d_policy];
            for kernel in kernels {
                let arguments = (&back, 4 * words as u32, &loaded, start[0], start[1]);
                // SAFETY: the buffer has as many bytes as the box; the map's tensor is alive.
                unsafe { module.launch(kernel, Grid::new(1, 128), arguments) }.unwrap();
            }
            for (at, value) in target.download().unwrap().into_iter().enumerate() {
                let (x, y) = (at as i32 % 48 - start[0], at as i32 / 48 - start[1]);
                let inside = (0..columns as i32).contains(&x) && (0..32).contains(&y);
                assert_eq!(
                    value,
                    if inside { tensor[at] } else { 0 },
                    "{at}, {swizzle:?} on {}",
                    device.name()
                );
            }
        }
    }
}

#[test]
fn rows_shorter_than_the_swizzles_span_are_a_span_apart() {
    const EXTENTS: [i32; 2] = [48, 40];
    const ROWS: u32 = 32;
    let short = [
        (TensorSwizzle::B32, 4),
        (TensorSwizzle::B64, 8),
        (TensorSwizzle::B128, 16),
        (TensorSwizzle::B128, 4),
    ];
    for device in devices() {
        let module = device.load(&PTX).unwrap();
        let tensor = counted(48 * 40);
        let buffer = device.upload(&tensor).unwrap();
        for (swizzle, columns) in short {
            let fields = |address| {
                let extents = EXTENTS.map(|extent| extent as u64);
                Description::new(TensorElement::U32, address, &extents, &[192], &[columns, ROWS])
                    .with_swizzle(swizzle)
            };
            let map = TensorMap::new(&device, &fields(buffer.address())).unwrap();
            let span = swizzle.span().unwrap() as u32 / 4;
            let words = span * ROWS;
            let image: Vec<u32> = counted(words as usize).iter().map(|word| word ^ 0x5555).collect();
            // The word of shared memory for a word of a row, or for one after the row within the
            // span.
            let place = |x: u32, y: u32| swizzle.apply(4 * (x + span * y)) as usize / 4;
            let inside = |x: i32, y: i32| (0..EXTENTS[0]).contains(&x) && (0..EXTENTS[1]).contains(&y);
            for start in [[4, 3], [44, 20], [48, 0], [-8, -3]] {
                let context = format!("{columns} words, {swizzle:?} at {start:?} on {}", device.name());
                let mut loaded = device.upload(&image).unwrap();
                let arguments = (&map, 4 * columns * ROWS, &mut loaded, words, start[0], start[1]);
                // SAFETY: the buffer has the words of the box; the map's tensor is alive.
                unsafe { module.launch(&kernels::load_2d_over, Grid::new(1, 128), arguments) }.unwrap();
                let got = loaded.download().unwrap();
                for y in 0..ROWS {
                    for x in 0..span {
                        let (at_x, at_y) = (start[0] + x as i32, start[1] + y as i32);
                        let expected = if x >= columns {
                            image[place(x, y)]
                        } else if inside(at_x, at_y) {
                            tensor[(at_x + EXTENTS[0] * at_y) as usize]
                        } else {
                            0
                        };
                        assert_eq!(got[place(x, y)], expected, "loaded ({x}, {y}), {context}");
                    }
                }
                if !map.fields().stores_from(&start) {
                    continue;
                }
                // Added to zeros, so that the sums equal the stored values.
                let kernels: [&Kernel<_>; 2] = [&kernels::store_2d, &kernels::add_2d];
                for kernel in kernels {
                    let target = device.alloc_zeroed::<u32>(48 * 40).unwrap();
                    let back = TensorMap::new(&device, &fields(target.address())).unwrap();
                    let source = device.upload(&image).unwrap();
                    let arguments = (&back, 4 * words, &source, start[0], start[1]);
                    // SAFETY: the buffer has the words of the box; the map's tensor is alive.
                    unsafe { module.launch(kernel, Grid::new(1, 128), arguments) }.unwrap();
                    for (at, value) in target.download().unwrap().into_iter().enumerate() {
                        let (x, y) = (at as i32 % EXTENTS[0] - start[0], at as i32 / EXTENTS[0] - start[1]);
                        let moved = (0..columns as i32).contains(&x) && (0..ROWS as i32).contains(&y);
                        let expected = if moved { image[place(x as u32, y as u32)] } else { 0 };
                        assert_eq!(value, expected, "{at} by {}, {context}", kernel.name());
                    }
                }
            }
        }
    }
}

#[test]
fn prefetches_change_nothing() {
    for device in devices() {
        let module = device.load(&PTX).unwrap();
        let maps: Vec<_> = CASES
            .iter()
            .map(|case| {
                let buffer = device.upload(&counted(case.span())).unwrap();
                let map = TensorMap::new(&device, &case.map(buffer.address())).unwrap();
                (buffer, map)
            })
            .collect();
        let grid = Grid::new(1, 32);
        // SAFETY: the maps' tensors live.
        unsafe {
            module.launch(&kernels::prefetch_1d, grid, (&maps[0].1, 0)).unwrap();
            module.launch(&kernels::prefetch_2d, grid, (&maps[1].1, 0, 1)).unwrap();
            module.launch(&kernels::prefetch_3d, grid, (&maps[2].1, 0, 1, 2)).unwrap();
            module.launch(&kernels::prefetch_4d, grid, (&maps[3].1, 0, 1, 2, 3)).unwrap();
            module.launch(&kernels::prefetch_5d, grid, (&maps[4].1, 0, 1, 0, 1, 0)).unwrap();
        }
        device.synchronize().unwrap();
        for (case, (buffer, _)) in CASES.iter().zip(&maps) {
            assert_eq!(buffer.download().unwrap(), counted(case.span()));
        }
    }
}

type Bytes = Kernel<(Global<u32>, u32, GlobalMut<u32>)>;

fn move_bytes(device: &Device, kernel: &Bytes, source: &[u32], target: &[u32]) -> Vec<u32> {
    let module = device.load(&PTX).unwrap();
    let from = device.upload(source).unwrap();
    let mut to = device.upload(target).unwrap();
    let bytes = 4 * source.len() as u32;
    // SAFETY: both have as many bytes.
    unsafe { module.launch(kernel, Grid::new(1, 128), (&from, bytes, &mut to)) }.unwrap();
    to.download().unwrap()
}

#[test]
fn bytes_go_there_and_back() {
    for device in devices() {
        for words in [4, 32, 1000, 12_000] {
            let source = counted(words);
            let kernels: [&Bytes; 4] = [
                &kernels::load_bytes,
                &kernels::load_bytes_policy,
                &kernels::store_bytes,
                &kernels::store_bytes_policy,
            ];
            for kernel in kernels {
                let got = move_bytes(&device, kernel, &source, &vec![0; words]);
                assert_eq!(got, source, "{words} words by {} on {}", kernel.name(), device.name());
            }
        }
    }
}

#[test]
fn what_threads_write_to_global_memory_and_fence_is_what_a_copy_reads() {
    for device in devices() {
        for words in [4, 1000, 12_000] {
            let source: Vec<u32> = (0..words as u32).collect();
            let got = move_bytes(&device, &kernels::through_global, &source, &vec![u32::MAX; words]);
            let expected: Vec<u32> = source.iter().map(|word| 2 * word + 1).collect();
            assert_eq!(got, expected, "{words} words on {}", device.name());
        }
    }
}

/// The words of small values.
fn words_of<T: Element>(numbers: &[T]) -> Vec<u32> {
    // SAFETY: plain values whose bytes are a multiple of four.
    unsafe { std::slice::from_raw_parts(numbers.as_ptr().cast::<u32>(), size_of_val(numbers) / 4) }.to_vec()
}

fn adds<T: Element>(device: &Device, kernel: &Bytes, number: impl Fn(i32) -> T) {
    // Small integers, whose sums every type represents.
    let (a, b): (Vec<T>, Vec<T>) = (0..256).map(|i| (number(i % 23), number(i % 17))).unzip();
    let sums: Vec<T> = (0..256).map(|i| number(i % 23 + i % 17)).collect();
    let got = move_bytes(device, kernel, &words_of(&a), &words_of(&b));
    assert_eq!(got, words_of(&sums), "{} on {}", kernel.name(), device.name());
}

#[test]
fn bytes_are_added_as_numbers() {
    for device in devices() {
        adds(&device, &kernels::add_bytes_u32, |i| i as u32);
        adds(&device, &kernels::add_bytes_i32, |i| -i);
        adds(&device, &kernels::add_bytes_u64, |i| i as u64);
        adds(&device, &kernels::add_bytes_f32, |i| -i as f32);
        adds(&device, &kernels::add_bytes_f64, f64::from);
        adds(&device, &kernels::add_bytes_f16, |i| f16::from_f32(i as f32));
        adds(&device, &kernels::add_bytes_bf16, |i| bf16::from_f32(-i as f32));
    }
}

/// A tensor of 64 x 10 elements, and boxes of 16 x 4 that are added to it: inside, and across its
/// upper edges.
fn adds_boxes<T: Element>(device: &Device, element: TensorElement, number: impl Fn(i32) -> T) {
    const EXTENTS: [usize; 2] = [64, 10];
    const BOX: [usize; 2] = [16, 4];
    let module = device.load(&PTX).unwrap();
    // Small integers, whose sums every type represents.
    let (old, new) = (|at: usize| at as i32 % 23, |at: usize| at as i32 % 17);
    let patch: Vec<T> = (0..BOX[0] * BOX[1]).map(|at| number(new(at))).collect();
    let patch = device.upload(&words_of(&patch)).unwrap();
    for start in [[0, 0], [8, 3], [56, 8], [64, 0]] {
        let tensor: Vec<T> = (0..EXTENTS[0] * EXTENTS[1]).map(|at| number(old(at))).collect();
        let buffer = device.upload(&words_of(&tensor)).unwrap();
        let (extents, boxes) = (EXTENTS.map(|extent| extent as u64), BOX.map(|extent| extent as u32));
        let strides = [extents[0] * size_of::<T>() as u64];
        let fields = Description::new(element, buffer.address(), &extents, &strides, &boxes);
        let map = TensorMap::new(device, &fields).unwrap();
        let arguments = (&map, fields.box_bytes() as u32, &patch, start[0] as i32, start[1] as i32);
        // SAFETY: `patch` has as many bytes as the box, and the map's tensor lives.
        unsafe { module.launch(&kernels::add_2d, Grid::new(1, 128), arguments) }.unwrap();
        let sums: Vec<T> = (0..EXTENTS[0] * EXTENTS[1])
            .map(|at| {
                let (x, y) =
                    ((at % EXTENTS[0]).checked_sub(start[0]), (at / EXTENTS[0]).checked_sub(start[1]));
                match (x, y) {
                    (Some(x), Some(y)) if x < BOX[0] && y < BOX[1] => number(old(at) + new(x + BOX[0] * y)),
                    _ => number(old(at)),
                }
            })
            .collect();
        assert_eq!(
            buffer.download().unwrap(),
            words_of(&sums),
            "{element:?} at {start:?} on {}",
            device.name()
        );
    }
}

#[test]
fn boxes_are_added_as_the_numbers_of_their_maps() {
    for device in devices() {
        adds_boxes(&device, TensorElement::U32, |i| i as u32);
        adds_boxes(&device, TensorElement::I32, |i| -i);
        adds_boxes(&device, TensorElement::U64, |i| i as u64);
        adds_boxes(&device, TensorElement::F32, |i| -i as f32);
        adds_boxes(&device, TensorElement::F16, |i| f16::from_f32(i as f32));
        adds_boxes(&device, TensorElement::Bf16, |i| bf16::from_f32(-i as f32));
    }
}

/// A tensor of 16 x 6 elements, and a box of 16 x 4 across one edge: elements out of bounds are
/// NaN. NVIDIA does not say which NaN.
fn fills<T: Element>(
    device: &Device,
    element: TensorElement,
    number: impl Fn(f32) -> T,
    value: impl Fn(T) -> f32,
) {
    const EXTENTS: [i32; 2] = [16, 6];
    const BOX: [i32; 2] = [16, 4];
    let module = device.load(&PTX).unwrap();
    let tensor: Vec<T> = (0..EXTENTS[0] * EXTENTS[1]).map(|at| number(at as f32)).collect();
    let buffer = device.upload(&words_of(&tensor)).unwrap();
    let extents = EXTENTS.map(|extent| extent as u64);
    let strides = [extents[0] * size_of::<T>() as u64];
    let fields =
        Description::new(element, buffer.address(), &extents, &strides, &BOX.map(|extent| extent as u32))
            .with_fill(TensorFill::Nan);
    let map = TensorMap::new(device, &fields).unwrap();
    let bytes = fields.box_bytes() as usize;
    for start in [[0, 0], [8, 4], [-8, -1], [0, 6]] {
        let mut loaded = device.alloc_uninit::<u32>(bytes / 4).unwrap();
        let arguments = (&map, bytes as u32, &mut loaded, start[0], start[1]);
        // SAFETY: the buffer has as many bytes as the box, and the map's tensor lives.
        unsafe { module.launch(&kernels::load_2d, Grid::new(1, 128), arguments) }.unwrap();
        let words = loaded.download().unwrap();
        // SAFETY: plain values, as many as fit in the words.
        let got = unsafe { std::slice::from_raw_parts(words.as_ptr().cast::<T>(), bytes / size_of::<T>()) };
        for (at, &got) in got.iter().enumerate() {
            let (x, y) = (start[0] + at as i32 % BOX[0], start[1] + at as i32 / BOX[0]);
            let inside = (0..EXTENTS[0]).contains(&x) && (0..EXTENTS[1]).contains(&y);
            let got = value(got);
            let right = if inside { got == (x + EXTENTS[0] * y) as f32 } else { got.is_nan() };
            assert!(right, "{element:?} at ({x}, {y}) of the box at {start:?} on {}: {got}", device.name());
        }
    }
}

#[test]
fn outside_of_the_tensor_are_nans_where_the_map_says_so() {
    for device in devices() {
        fills(&device, TensorElement::F32, |x| x, |x| x);
        fills(&device, TensorElement::F16, f16::from_f32, f16::to_f32);
        fills(&device, TensorElement::Bf16, bf16::from_f32, bf16::to_f32);
    }
}

/// A box has `ceil(extent / stride)` elements along a dimension, which are `stride` apart in the
/// tensor.
#[test]
fn loads_leave_out_elements_by_the_strides_of_the_map() {
    const EXTENTS: [i32; 3] = [12, 7, 9];
    const BOX: [i32; 3] = [8, 5, 8];
    let tensor = counted(EXTENTS.iter().product::<i32>() as usize);
    for device in devices() {
        let module = device.load(&PTX).unwrap();
        let buffer = device.upload(&tensor).unwrap();
        for steps in [[1, 2, 1], [1, 1, 3], [1, 2, 8], [1, 5, 3]] {
            let (extents, boxes) = (EXTENTS.map(|extent| extent as u64), BOX.map(|extent| extent as u32));
            let strides = [4 * extents[0], 4 * extents[0] * extents[1]];
            let mut fields =
                Description::new(TensorElement::U32, buffer.address(), &extents, &strides, &boxes);
            fields.element_strides[..3].copy_from_slice(&steps);
            let counts: [i32; 3] = std::array::from_fn(|d| fields.box_count(d) as i32);
            let words = counts.iter().product::<i32>() as usize;
            assert_eq!(fields.box_bytes() as usize, 4 * words, "{steps:?}");
            let map = TensorMap::new(&device, &fields).unwrap();
            for start in [[0, 0, 0], [4, 3, 2], [8, 5, 4], [-4, -3, -5]] {
                let mut loaded = device.alloc_uninit::<u32>(words).unwrap();
                let arguments = (&map, 4 * words as u32, &mut loaded, start[0], start[1], start[2]);
                // SAFETY: the buffer has as many bytes as are loaded, and the map's tensor lives.
                unsafe { module.launch(&kernels::load_3d, Grid::new(1, 128), arguments) }.unwrap();
                let element = |at: usize| {
                    let mut rest = at as i32;
                    let (mut index, mut size) = (0, 1);
                    for (((first, count), step), extent) in start.iter().zip(counts).zip(steps).zip(EXTENTS) {
                        let place = first + rest % count * step as i32;
                        rest /= count;
                        if !(0..extent).contains(&place) {
                            return 0;
                        }
                        index += place * size;
                        size *= extent;
                    }
                    tensor[index as usize]
                };
                let expected: Vec<u32> = (0..words).map(element).collect();
                let context = format!("every {steps:?} at {start:?} on {}", device.name());
                assert_eq!(loaded.download().unwrap(), expected, "{context}");
            }
        }
    }
}

#[test]
fn tensors_that_tma_does_not_take_are_refused_with_the_numbers() {
    for device in devices() {
        let odd = Description::new(TensorElement::U32, 0x1000, &[30, 17], &[4 * 30], &[32, 9]);
        let error = TensorMap::new(&device, &odd).unwrap_err();
        assert!(matches!(error, Error::TensorMap(_)), "{error}");
        assert!(
            error.to_string().contains("120 bytes; it must be a multiple of 16 (112 and 128 are)"),
            "{error}"
        );
    }
}

#[test]
fn tensors_that_go_downwards_or_beyond_their_buffer_have_no_map_of_a_tile() {
    const TILE: TmaTile = TmaTile::new(ComposedLayout::plain(layout!((8, 16):(16, 1))), 32);
    for device in devices() {
        let buffer = device.alloc_zeroed::<u32>(100 * 16).unwrap();
        let told = |tensor: &Layout| TensorMap::of_tile(&device, &TILE, &buffer, tensor).unwrap_err();
        assert!(TensorMap::of_tile(&device, &TILE, &buffer, &layout!((100, 16):(16, 1))).is_ok());
        // As many elements as the buffer has, but starting before it.
        let error = told(&layout!((100, 16):(-16, 1)));
        assert!(
            matches!(error, Error::TensorOfTile(TmaMapError::Descending { mode: 0, stride: -16 })),
            "{error}"
        );
        assert!(error.to_string().contains("has the stride -16; TMA takes none below 0"), "{error}");
        let error = told(&identity_layout(tuple!((100, 16))));
        assert!(matches!(error, Error::TensorOfTile(TmaMapError::Coordinates)), "{error}");
        let error = told(&layout!((101, 16):(16, 1)));
        assert!(matches!(error, Error::TensorBeyondBuffer { elements: 1616, len: 1600 }), "{error}");
    }
}
